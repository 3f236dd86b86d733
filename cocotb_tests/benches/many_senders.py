"""Many tasks send by one driver over exported RTL: more than names can wait in ACCEPTED."""

import cocotb

COUNT = 40
CONFIGURATION = {"topology": {"kind": "wire"}, "ni": {"slots": 64, "sets": 16}}


async def program(near, far) -> dict:
    await near.open()
    await far.open()
    # All that is offered meanwhile is accepted at once afterwards.
    await near.control(quiesce=True)
    sending = [cocotb.start_soon(near.send(far.node, b"", tag=tag, patience=20_000)) for tag in range(COUNT)]
    await near._transport.wait(2000)
    await near.control()
    names = [await task for task in sending]
    ends = await near.completions(COUNT)
    return {
        "names": sorted(names),
        "ends": sorted((end.slot, end.generation, end.tag) for end in ends),
        "lost": (await near.read("INTERRUPT_PENDING"))["NAME_LOST"],
    }
