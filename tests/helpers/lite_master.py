"""An AXI4-Lite master for Amaranth's simulator, which pauses at random."""

import random

from lethe.bus.signature import OKAY, SLVERR


class LiteMaster:
    """Drives ``bus`` from a testbench; address, data and answer of a transfer wait for each other as ``chance`` says.

    Parameters
    ----------
    bus : an `axi_lite` port of the device
    chance : draws the pauses; None: none
    """

    def __init__(self, bus, chance: random.Random | None = None, share: float = 0.3):
        self._bus, self._chance, self._share = bus, chance, share

    def _pauses(self) -> bool:
        return self._chance is not None and self._chance.random() < self._share

    async def read(self, ctx, address: int) -> tuple[int, bool]:
        """(word, whether it is OKAY)."""
        bus = self._bus
        while self._pauses():
            await ctx.tick()
        ctx.set(bus.araddr, address)
        ctx.set(bus.arvalid, 1)
        await ctx.tick().until(bus.arready)
        ctx.set(bus.arvalid, 0)
        ctx.set(bus.araddr, 0)
        return await self._answer(ctx, bus.rvalid, bus.rready, bus.rresp, bus.rdata)

    async def write(self, ctx, address: int, word: int, strobe: int = 0b1111) -> bool:
        """Whether it is OKAY."""
        bus = self._bus
        first = ((bus.awvalid, bus.awaddr, address), (bus.wvalid, bus.wdata, word))
        ctx.set(bus.wstrb, strobe)
        for valid, part, value in first if not self._pauses() else first[::-1]:
            while self._pauses():
                await ctx.tick()
            ctx.set(part, value)
            ctx.set(valid, 1)
        await ctx.tick().until(bus.awready & bus.wready)
        for valid, part, _ in first:
            ctx.set(valid, 0)
            ctx.set(part, 0)
        ctx.set(bus.wstrb, 0)
        _, good = await self._answer(ctx, bus.bvalid, bus.bready, bus.bresp, bus.bresp)
        return good

    async def _answer(self, ctx, valid, ready, answer, word) -> tuple[int, bool]:
        while self._pauses():
            await ctx.tick()
        ctx.set(ready, 1)
        said, found = await ctx.tick().sample(answer, word).until(valid)
        ctx.set(ready, 0)
        assert said in (OKAY, SLVERR)
        return found, said == OKAY
