"""Programs of the driver for exported RTL: what the golden model's transport does not show."""

import cocotb

from lethe_sim.driver.transport import DriverError

COUNT = 40
CONFIGURATION = {"topology": {"kind": "wire"}, "ni": {"slots": 64, "sets": 16}}


async def many_senders(near, far) -> dict:
    """Many tasks send by one driver: more than names can wait in ACCEPTED."""
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


async def reset_in_a_transfer(near, far) -> dict:
    """The system is reset while a register is read, and while one is written; then the driver is opened again."""
    await near.open()

    async def told(transfer) -> str:
        try:
            await transfer
        except DriverError as error:
            return str(error)
        return "answered"

    said = []
    for transfer in (near.status(), near.control(quiesce=True)):
        task = cocotb.start_soon(told(transfer))
        await near._transport.wait(2)
        cocotb.top.rst.value = 1
        await near._transport.wait(4)
        cocotb.top.rst.value = 0
        said.append(await task)
    await near.open()
    return {"said": said, "status": await near.status()}
