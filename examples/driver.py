"""A program for the driver: two hosts send, receive, cancel, count and reset.

``python examples/driver.py`` runs it over the golden model; a bench runs the same over exported RTL.
"""

import asyncio

from lethe.spec.config import System
from lethe_sim.driver.driver import Driver
from lethe_sim.driver.golden import GoldenNetwork

#: Two nodes and a wire that loses a tenth of what it carries.
CONFIGURATION = {"topology": {"kind": "wire"}, "faults": {"loss": 0.1}}
PAYLOADS = (b"every", b"datagram", b"", b"arrives, whatever is lost", b"exactly once")


async def program(near: Driver, far: Driver) -> dict:
    """What came of it, which is the same wherever it runs."""
    for one in (near, far):
        await one.open()
    found: dict = {"nodes": [near.node, far.node]}

    # Every datagram arrives once, in any order, and ends ACCEPTED.
    for payload in PAYLOADS:
        await near.send(far.node, payload)
    got = [await far.recv() for _ in PAYLOADS]
    found["received"] = sorted(one.payload.decode() for one in got)
    found["sources"] = sorted({one.source for one in got})
    ends = await near.completions(len(PAYLOADS))
    found["ends"] = sorted((end.tag, end.status.name) for end in ends)

    # One that is cancelled while the link is off was never sent.
    await near.control(link_enable=False)
    name = await near.send(far.node, b"never")
    await near.cancel(name)
    (end,) = await near.completions(1)
    found["cancelled"] = [end.tag == name.tag, end.status.name, end.cause.name]
    await near.control()

    # The counters of one cycle agree with each other.
    for one in (near, far):
        await one.idle()
    counters = await near.counters()
    found["counters"] = {name: counters[name] for name in ("ACCEPTED", "COMPLETED", "RELEASED")}
    found["delivered"] = (await far.counters())["DELIVERED"]

    # A node that was reset has a new incarnation, and goes on.
    found["incarnation"] = await far.reset()
    await far.send(near.node, b"back again")
    found["answer"] = (await near.recv()).payload.decode()
    (end,) = await far.completions(1)
    found["last"] = end.status.name
    return found


def main() -> None:
    network = GoldenNetwork(System.make(**CONFIGURATION))
    near, far = (Driver(transport) for transport in network.transports)
    for name, value in asyncio.run(program(near, far)).items():
        print(f"{name}: {value}")


if __name__ == "__main__":
    main()
