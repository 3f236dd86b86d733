"""Tables whose readers see every write of earlier cycles."""

from amaranth.hdl import Module, Mux, Signal, ValueLike
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


def _is_of(write, asked):
    """Whether a write is of the word that is asked for."""
    enable, address, _ = write
    return enable & (address == asked)


def _writes(ram, enable, address, word, asked) -> list:
    return [ram.write_en.eq(enable), ram.write_addr.eq(address), ram.write_data.eq(word), ram.read_addr.eq(asked)]


def _registered(m: Module, name: str, port):
    """A write of the cycle before."""
    _, address, word = port
    held = (
        Signal(name=f"{name}_en"), Signal.like(address, name=f"{name}_addr"),
        Signal(word.shape(), name=name, reset_less=True),
    )  # fmt: skip
    m.d.sync += [register.eq(value) for register, value in zip(held, port, strict=True)]
    return held


class _Cleared(wiring.Component):
    """What both kinds have: one write port, and a walk that writes ``init`` everywhere."""

    def __init__(self, shape, depth: int, readers, init: ValueLike, more=()):
        self._shape, self._depth, self._readers, self._init = shape, depth, tuple(readers), init
        super().__init__(_members(shape, depth, self._readers) | dict(more))

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

    The word that a reader asks for in *c* is shown in *c+2*: as of the start of *c+2*, and, a gate sooner, as of the
    start of *c+1*.

    Parameters
    ----------
    shape, depth : of a word; words
    readers : their names
    carries : False: nothing is carried past; who asks in *c* sees what was written before *c*
    late : what is written has a register before the memory
    init : the constant that ``clear`` writes

    Members
    -------
    write_en, write_addr, write : In
        Seen by what is shown from the next cycle on.
    clear, clear_addr : In
        ``init`` is written in place of ``write``.
    NAME_addr, NAME, NAME_before : In, Out, Out
        Of each reader: the address that it asks for; the word there as of the start of this cycle; and, if writes are
        carried past, the word as of the start of the cycle before.
    """

    def __init__(self, shape, depth: int, readers, *, carries: bool = True, late: bool = False, init: ValueLike = 0):
        self._carries, self._late = carries, late
        super().__init__(shape, depth, readers, init, {f"{name}_before": Out(shape) for name in readers if carries})

    def elaborate(self, platform):
        m = Module()
        port = self._port(m)
        # What was written one and, where it comes to the memory late, two cycles ago.
        last = _registered(m, "last", port) if self._carries else port
        older = _registered(m, "older", last) if self._late else last
        for reader in self._readers:
            asked, shown = getattr(self, f"{reader}_addr"), getattr(self, reader)
            m.submodules[reader] = ram = Ram(
                self._shape, self._depth, early=self._carries, registered=not self._carries
            )
            m.d.comb += _writes(ram, *(last if self._late else port), asked)
            if not self._carries:
                m.d.comb += shown.eq(ram.read_data)
                continue
            # In the cycle after it was asked for: the memory's word, or a write that came too late to be in it.
            where, newest = Signal.like(asked, name=f"{reader}_asked"), Signal(name=f"{reader}_newest")
            kept = Signal(self._shape, name=f"{reader}_kept", reset_less=True)
            near, hit = Signal(name=f"{reader}_near"), Signal(name=f"{reader}_hit")
            m.d.sync += [
                where.eq(asked),
                near.eq(_is_of(port, asked)),
                hit.eq(_is_of(port, asked) | (_is_of(last, asked) if self._late else 0)),
                newest.eq(_is_of(port, where)),
                # The memory's word comes late in the cycle.
                kept.eq(Mux(hit, Mux(near, last[2], older[2]), ram.read_early)),
            ]
            m.d.comb += [shown.eq(Mux(newest, last[2], kept)), getattr(self, f"{reader}_before").eq(kept)]
        return m


class Words(_Cleared):
    """Few words, each reader of which is shown in the same cycle what it asks for, as of the start of the cycle.

    Parameters
    ----------
    shape, depth : of a word; words
    readers : their names
    late : a write waits in a register before the memory for a cycle; readers see this register, too
    init : the constant that ``clear`` writes
    """

    def __init__(self, shape, depth: int, readers, *, late: bool = False, init: ValueLike = 0):
        self._late = late
        super().__init__(shape, depth, readers, init)

    def elaborate(self, platform):
        m = Module()
        port = self._port(m)
        if self._late:
            port = _registered(m, "last", port)
        enable, address, word = port
        for reader in self._readers:
            m.submodules[reader] = memory = Memory(
                shape=self._shape, depth=max(2, self._depth), init=[], attrs=style_of(platform, 32, 1)
            )
            write, read, asked = memory.write_port(), memory.read_port(domain="comb"), getattr(self, f"{reader}_addr")
            m.d.comb += [
                write.en.eq(enable),
                write.addr.eq(address),
                write.data.eq(word),
                read.addr.eq(asked),
                getattr(self, reader).eq(Mux(_is_of(port, asked), word, read.data) if self._late else read.data),
            ]
        return m
