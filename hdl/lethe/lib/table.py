"""Tables whose readers see every write of earlier cycles."""

from amaranth.hdl import Const, Module, Mux, Signal, ValueLike
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from .memory import Ram, style_of

__all__ = ["Table", "Words"]


def _members(shape, depth: int, readers) -> dict:
    address = ceil_log2(max(2, depth))
    members = {"write_en": In(1), "write_addr": In(address), "write": In(shape)}
    members |= {"clear": In(1), "clear_addr": In(address)}
    for reader in readers:
        members |= {f"{reader}_addr": In(address), reader: Out(shape)}
    return members


def _writes(ram, enable, address, word, asked) -> list:
    return [ram.write_en.eq(enable), ram.write_addr.eq(address), ram.write_data.eq(word), ram.read_addr.eq(asked)]


class _Cleared(wiring.Component):
    """What both kinds have: one write port, and a walk that writes ``init`` everywhere."""

    def __init__(self, shape, depth: int, readers, init: ValueLike):
        self._shape, self._depth, self._readers, self._init = shape, depth, tuple(readers), init
        super().__init__(_members(shape, depth, self._readers))

    def _port(self, m: Module):
        """The write port, which is the walk's while ``clear``."""
        enable, address, word = Signal(), Signal.like(self.write_addr), Signal(self._shape)
        m.d.comb += [
            enable.eq(self.write_en | self.clear),
            address.eq(Mux(self.clear, self.clear_addr, self.write_addr)),
            word.eq(self.write),
        ]
        with m.If(self.clear):
            m.d.comb += word.eq(self._init)
        return enable, address, word


class Table(_Cleared):
    """A `Ram` for each reader, and registers that carry the last writes past it.

    What a reader asks for in *c* is shown in *c+2*, as of the start of *c+2*; to an *early* one as of that of *c+1*.

    Parameters
    ----------
    shape, depth : of a word; words
    readers : their names
    early : those of them that are early
    carries : False: nothing is carried past; who asks in *c* sees what was written before *c*
    late : what is written has a register before the memory, and one write more is carried past
    init : the constant that ``clear`` writes

    Members
    -------
    write_en, write_addr, write : In
        Seen by what is shown from the next cycle on.
    clear, clear_addr : In
        ``init`` is written in place of ``write``.
    NAME_addr, NAME : In, Out
        Of each reader.
    """

    def __init__(
        self, shape, depth: int, readers, *, early=(), carries: bool = True, late: bool = False, init: ValueLike = 0
    ):
        self._early, self._carries, self._late = tuple(early), carries, late
        super().__init__(shape, depth, readers, init)

    def elaborate(self, platform):
        m = Module()
        enable, address, word = self._port(m)
        # What was written one and two cycles ago.
        last, older = (Signal(self._shape, name=name, reset_less=True) for name in ("last", "older"))
        m.d.sync += [last.eq(word), older.eq(last)]
        port = enable, address, word
        if self._late:
            port = Signal(), Signal.like(address), last
            m.d.sync += [port[0].eq(enable), port[1].eq(address)]
        for reader in self._readers:
            asked, shown = getattr(self, f"{reader}_addr"), getattr(self, reader)
            m.submodules[reader] = ram = Ram(self._shape, self._depth)
            if not self._carries:
                m.d.comb += shown.eq(ram.read_data)
                m.d.comb += _writes(ram, *port, asked)
                continue
            before, near, far = Signal.like(asked, name=f"{reader}_before"), Signal(), Signal()
            # In the cycle in which it is shown: whether it needs one of these writes, and the last one; else which.
            hit, newest, kept = Signal(name=f"{reader}_hit"), Signal(name=f"{reader}_newest"), older
            again = Const(0, 1) if reader in self._early else enable & (address == before)
            m.d.comb += _writes(ram, *port, asked)
            m.d.sync += [before.eq(asked), near.eq(enable & (address == asked))]
            m.d.sync += [newest.eq(again), hit.eq(near | far | again)]
            if self._late:
                kept = Signal(self._shape, name=f"{reader}_kept", reset_less=True)
                m.d.sync += [far.eq(port[0] & (port[1] == asked)), kept.eq(Mux(near, last, older))]
            m.d.comb += shown.eq(Mux(hit, Mux(newest, last, kept), ram.read_data))
        return m


class Words(_Cleared):
    """Few words, each reader of which is shown in the same cycle what it asks for, as of the start of the cycle."""

    def __init__(self, shape, depth: int, readers, *, init: ValueLike = 0):
        super().__init__(shape, depth, readers, init)

    def elaborate(self, platform):
        m = Module()
        enable, address, word = self._port(m)
        for reader in self._readers:
            m.submodules[reader] = memory = Memory(
                shape=self._shape, depth=max(2, self._depth), init=[], attrs=style_of(platform, 32, 1)
            )
            write, read = memory.write_port(), memory.read_port(domain="comb")
            m.d.comb += [
                write.en.eq(enable),
                write.addr.eq(address),
                write.data.eq(word),
                read.addr.eq(getattr(self, f"{reader}_addr")),
                getattr(self, reader).eq(read.data),
            ]
        return m
