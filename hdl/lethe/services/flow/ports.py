"""Own ports: what they are bound to, their free cells, and which of them are congested (contract of flow, 6 and 7)."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from lethe.lib.memory import Ram
from lethe.lib.queue import step
from lethe.lib.table import Words
from lethe.ni.watch import padded

from .layouts import Layouts, at_most

__all__ = ["MOST_ROOM", "Ports", "less_two"]

#: Limits are kept in units of so many bytes.
UNIT = 16
#: Numbers that a port's free cells are worth at most, beyond the two that every stream has.
MOST_ROOM = 14


class Ports(wiring.Component):
    """The tables of own ports.

    Parameters
    ----------
    layouts : of the configuration

    Members
    -------
    binds, unbinds, limits, set_index, set_value : In
        What the host sets; ``limits``: the receive limit, in units of 16 bytes.
    names : In
        Beside ``binds`` at least: a port that is not bound has this number.
    binds_if_last, fetches_last : In(1)
        It is bound if the last message leaves its list.
    bound, congested : Out(ports)
    own_congested : Out(1)
        ``own_port`` is, in this very cycle.
    judged_full, judged_crowded : Out(1)
        ``judged_port`` has no free cell, or but those for expected numbers, in this very cycle.
    own_full : Out(1)
        ``own_port`` of the cycle before has no free cell.
    NAME_port, NAME_number, NAME_bound : In, Out(16), Out(1)
        For those who ask, judged, sent and own: the number of a port, and whether it is bound, in this cycle; for
        fetched in the next one, as of the start of that.
    set_bound : Out(1)
        The same of ``set_index``.
    offer_port, offer_room, job_port, job_room : In, Out, In, Out
        A port, and two cycles later half of its free cells, at most 14, as of the start of the cycle before.
    accept_now, accept_takes, accept_port, own_takes, own_port : In
        ``accept_now``: a data message acts, so that none to the own node does.  A cell of ``accept_port``, or of
        ``own_port``, is promised.
    frees, freed_port, freed_cell, freed_length : In
        A cell is free again, and so many bytes less are in its port.
    may_free : In(1)
        Beside ``frees`` at least: one cell of ``freed_port`` is not free.
    free_port, free_cell, free_takes : In, Out, In
        The oldest free cell of a port, two cycles later; it is taken.
    fills, fill_port, fill_length : In
        So many bytes more are in a port.
    appends, append_port : In
        A cell goes to the list of a port.
    turns, turned, turned_index : Out
        A port becomes congested, or is so no more.
    nothing_used, all_used, used_moves : Out
        No cell is used; how many are; that of a port changes.
    watch_wraps, stuck : In(1), Out(1)
        A watch is over; the used cells of a congested port have not changed since the last was.
    ready, clear, clear_addr, ports_clear, ports_clear_addr : In
        Initialised; the walk before that, and that over ports.
    """

    def __init__(self, layouts: Layouts):
        self._layouts = layouts
        of = layouts
        port = of.port_bits
        askers = ("judged", "fetched", "sent", "own")
        self._room = range(MOST_ROOM + 1)
        super().__init__(
            {
                "names": In(1), "binds": In(1), "binds_if_last": In(1), "fetches_last": In(1),
                "unbinds": In(1), "limits": In(1), "set_index": In(port),
                "set_value": In(16),
                "bound": Out(of.ports), "congested": Out(of.ports), "own_congested": Out(1), "set_bound": Out(1),
                "judged_full": Out(1), "judged_crowded": Out(1), "own_full": Out(1),
                **{f"{name}_port": In(port) for name in askers},
                **{f"{name}_number": Out(16) for name in askers},
                **{f"{name}_bound": Out(1) for name in askers},
                "offer_port": In(port), "offer_room": Out(self._room),
                "job_port": In(port), "job_room": Out(self._room),
                "accept_now": In(1), "accept_takes": In(1), "accept_port": In(port), "own_takes": In(1),  # of own_port
                "frees": In(1), "may_free": In(1), "freed_port": In(port), "freed_cell": In(of.cell_bits),
                "freed_length": In(of.length_bits),
                "free_port": In(port), "free_cell": Out(of.cell_bits), "free_takes": In(1),
                "fills": In(1), "fill_port": In(port), "fill_length": In(of.length_bits),
                "appends": In(1), "append_port": In(port),
                "turns": Out(1), "turned": Out(1), "turned_index": Out(port),
                "nothing_used": Out(1), "all_used": Out(16), "used_moves": Out(1),
                "watch_wraps": In(1), "stuck": Out(1),
                "ready": In(1), "clear": In(1), "clear_addr": In(range(of.initial)),
                "ports_clear": In(1), "ports_clear_addr": In(of.port_bits),
            }
        )  # fmt: skip
        self._askers = askers

    def elaborate(self, platform):
        m = Module()
        of, system = self._layouts, self._layouts.system
        # Bound.  The index of a port is the lowest bits of its number.
        low = of.port_bits
        m.submodules.numbers = numbers = Words(16 - low, of.ports, self._askers)
        m.d.comb += [
            numbers.write_en.eq(self.names),
            numbers.write_addr.eq(self.set_index),
            numbers.write.eq(self.set_value[low:]),
            numbers.clear.eq(self.ports_clear),
            numbers.clear_addr.eq(self.ports_clear_addr),
        ]
        # The bits of all ports are kept twice: those who ask for one of them would need a multiplexer each.
        # That a port is bound whose list becomes empty in this cycle is known late: it is written in the next, in which
        # those who ask see it, and no message is chosen.
        bound, binds, late = Signal(of.ports, init=-1 if system.flow.bound else 0), Signal(), Signal()
        if_last, was_last, whom, which = Signal(), Signal(), Signal(of.port_bits), Signal(of.port_bits)
        m.d.sync += [if_last.eq(self.binds_if_last), was_last.eq(self.fetches_last), whom.eq(self.set_index)]
        m.submodules.tied = tied = Words(1, of.ports, (*self._askers, "look", "set"), init=int(system.flow.bound))
        m.d.comb += [
            late.eq(if_last & was_last),
            binds.eq(self.binds | late),
            which.eq(Mux(if_last, whom, self.set_index)),
            tied.clear.eq(self.ports_clear),
            tied.clear_addr.eq(self.ports_clear_addr),
            tied.write_en.eq(binds | self.unbinds),
            tied.write_addr.eq(which),
            tied.write.eq(~self.unbinds),
            tied.set_addr.eq(self.set_index),
            self.set_bound.eq(tied.set),
            self.bound.eq(bound),
        ]
        with m.If(binds | self.unbinds):
            m.d.sync += bound.bit_select(which, 1).eq(~self.unbinds)
        for name in self._askers:
            asked = getattr(self, f"{name}_port")
            number, is_tied = Cat(asked, getattr(numbers, name)), getattr(tied, name)
            m.d.comb += [getattr(table, f"{name}_addr").eq(asked) for table in (numbers, tied)]
            shown = getattr(self, f"{name}_number"), getattr(self, f"{name}_bound")
            if name == "fetched":
                # A cycle later, with what is written meanwhile.
                renamed, turned = self.names & (self.set_index == asked), tied.write_en & (which == asked)
                m.d.sync += [
                    shown[0].eq(Mux(renamed, Cat(asked, self.set_value[low:]), number)),
                    shown[1].eq(Mux(turned, ~self.unbinds, is_tied)),
                ]
            else:
                m.d.comb += [shown[0].eq(number), shown[1].eq(is_tied | (late & (whom == asked)))]

        promised, freed = self._cells_used(m)
        self._free_cells(m)
        self._congestion(m, tied, late, whom, promised, freed)
        return m

    def _cells_used(self, m):
        """Free cells, of a port: all of them and all that were freed, less all that were promised."""
        of, system = self._layouts, self._layouts.system
        bits = of.cells.bit_length()
        readers = {
            "judged": self.judged_port, "own": self.own_port, "offer": self.offer_port, "job": self.job_port,
        }  # fmt: skip
        m.submodules.promised = promised = Words(bits, of.ports, ("now", "look", *readers))
        m.submodules.freed = freed = Words(bits, of.ports, ("now", "look", *readers), init=of.cells)
        takes = self.accept_takes | self.own_takes
        for table, moves, port in (
            # Which of both acts is known before it is known whether it takes a cell.
            (promised, takes, Mux(self.accept_now, self.accept_port, self.own_port)),
            (freed, self.frees, self.freed_port),
        ):
            m.d.comb += [
                table.clear.eq(self.ports_clear),
                table.clear_addr.eq(self.ports_clear_addr),
                table.now_addr.eq(port),
                table.write_en.eq(moves),
                table.write_addr.eq(port),
                table.write.eq(table.now + 1),
                *(getattr(table, f"{name}_addr").eq(asked) for name, asked in readers.items()),
            ]
        free = {name: Signal(bits, name=f"{name}_free") for name in readers}
        for name, count in free.items():
            m.d.comb += count.eq(getattr(freed, name) - getattr(promised, name))

        def moved(port, own):
            """Whether a cell more, and whether one less, of a port is free in the next cycle.

            ``own``: whether an own message takes one.
            """
            more = self.frees & (self.freed_port == port)
            less = (self.accept_takes & (self.accept_port == port)) | own
            return more & ~less, less & ~more

        more, less = moved(self.own_port, self.own_takes)
        m.d.sync += self.own_full.eq(~more & Mux(less, free["own"] == 1, free["own"] == 0))
        m.d.comb += [
            self.judged_full.eq(free["judged"] == 0),
            self.judged_crowded.eq(at_most(free["judged"], system.flow.in_order)),
        ]

        for name in ("offer", "job"):
            count, moves = Signal(bits, name=f"{name}_count"), Signal(2, name=f"{name}_moves")
            less = self.own_takes & (self.own_port == readers[name])
            m.d.sync += [count.eq(free[name]), moves.eq(Cat(moved(readers[name], less)))]
            half = _stepped(count, *moves)[1:]
            m.d.sync += getattr(self, f"{name}_room").eq(Mux(at_most(half, MOST_ROOM), half, MOST_ROOM))
        # All that were promised, and all that were freed.
        given, back = Signal(range(of.ports * of.cells + 1)), Signal(range(of.ports * of.cells + 1))
        with m.If(takes):
            m.d.sync += given.eq(given + 1)
        with m.If(self.frees):
            m.d.sync += back.eq(back + 1)
        m.d.comb += [
            self.nothing_used.eq(given == back),
            self.all_used.eq((given - back)[: len(given)]),
            self.used_moves.eq(takes | self.frees),
        ]
        # Of a congested port it may be that nothing moved while it did in others.
        moved, moves = Signal(of.ports), Signal(of.ports)
        for i in range(of.ports):
            taken = takes & (promised.write_addr == i)
            m.d.comb += moves[i].eq(taken | (self.frees & (self.freed_port == i)))
        m.d.sync += moved.eq(moves | (moved & ~self.watch_wraps.replicate(of.ports)))
        m.d.comb += self.stuck.eq((self.congested & ~moved).any())
        return promised, freed

    def _free_cells(self, m):
        """The free cells of each port: at first all of them, in their order."""
        of = self._layouts
        m.submodules.cell_memory = cells = Ram(of.cell_bits, of.ports << of.cell_bits)
        m.submodules.heads = heads = Words(of.cell_bits, of.ports, ("now",))
        m.submodules.tails = tails = Words(of.cell_bits, of.ports, ("now",))
        port, cell = Signal(of.port_bits), Signal(of.cell_bits)
        with m.If(self.clear):
            m.d.sync += cell.eq(step(cell, of.cells))
            with m.If(cell == of.cells - 1):
                m.d.sync += port.eq(port + 1)
        filled = Signal()  # all ports are: the walk goes on for other tables
        with m.If(self.clear & (cell == of.cells - 1) & (port == of.ports - 1)):
            m.d.sync += filled.eq(1)
        freed = Cat(tails.now, self.freed_port)
        m.d.comb += [
            # Behind the last free one anything may stand, while one is not free.
            cells.write_en.eq((self.clear & ~filled) | self.may_free),
            cells.write_addr.eq(Mux(self.clear, Cat(cell, port), freed)),
            cells.write_data.eq(Mux(self.clear, cell, self.freed_cell)),
            cells.read_addr.eq(Cat(heads.now, self.free_port)),
            self.free_cell.eq(cells.read_data),
        ]
        for pointers, index, moves in ((heads, self.free_port, self.free_takes), (tails, self.freed_port, self.frees)):
            m.d.comb += [
                pointers.clear.eq(self.ports_clear),
                pointers.clear_addr.eq(self.ports_clear_addr),
                pointers.now_addr.eq(index),
                pointers.write_en.eq(moves),
                pointers.write_addr.eq(index),
                pointers.write.eq(_next(pointers.now, of.cells)),
            ]

    def _congestion(self, m, bound, late, whom, promised, freed):
        """A port's bytes are all that came, less all that went; one port is looked at in each cycle."""
        of, system = self._layouts, self._layouts.system
        # The totals wrap; the difference of two has a bit to spare, for its sign beside a limit.
        largest = (of.cells * of.mtu).bit_length() + 1
        # What is known in the cycle before of the port that is looked at: its bytes, its cells, and whether it is
        # congested.
        look, next_look = Signal(of.port_bits), Signal(of.port_bits, init=1)
        m.d.sync += [look.eq(next_look), next_look.eq(next_look + 1)]

        def looked(table):
            """What the table has of the port, as of the start of the cycle in which it is looked at."""
            word = Signal.like(table.look)
            m.d.comb += table.look_addr.eq(next_look)
            m.d.sync += word.eq(Mux(table.write_en & (table.write_addr == next_look), table.write, table.look))
            return word

        totals = []
        for name, moves, index, length in (
            ("came", self.fills, self.fill_port, self.fill_length),
            ("went", self.frees, self.freed_port, self.freed_length),
        ):
            m.submodules[name] = total = Words(largest, of.ports, ("now", "look"))
            m.d.comb += [
                total.clear.eq(self.ports_clear),
                total.clear_addr.eq(self.ports_clear_addr),
                total.now_addr.eq(index),
                total.write_en.eq(moves),
                total.write_addr.eq(index),
                total.write.eq(total.now + length),
            ]
            totals.append(looked(total))
        came, went = totals
        returned = looked(freed)
        # Cells that went to the list, and are free again.
        m.submodules.placed = placed = Words(len(freed.look), of.ports, ("now", "look"), init=of.cells)
        m.d.comb += [
            placed.clear.eq(self.ports_clear),
            placed.clear_addr.eq(self.ports_clear_addr),
            placed.now_addr.eq(self.append_port),
            placed.write_en.eq(self.appends),
            placed.write_addr.eq(self.append_port),
            placed.write.eq(placed.now + 1),
        ]
        waiting, free, kept = Signal.like(freed.look), Signal.like(freed.look), system.flow.in_order
        least = Signal(16 + exact_log2(UNIT))
        m.submodules.limits = limits = Words(16, of.ports, ("look",), init=system.flow_receive_limit // UNIT)
        over, many, few = Signal(), Signal(), Signal()
        was, seen, tied, congested = Signal(), Signal(), Signal(), Signal(of.ports)
        m.submodules.crowded = crowded = Words(1, of.ports, ("look", "own"))
        m.d.comb += [
            crowded.clear.eq(self.ports_clear),
            crowded.clear_addr.eq(self.ports_clear_addr),
            crowded.write_en.eq(self.turns),
            crowded.write_addr.eq(self.turned_index),
            crowded.write.eq(self.turned),
            # Of two ports the one that turns is the one that is looked at next.
            seen.eq(Mux(self.turns, self.turned, crowded.look) if of.ports == 2 else crowded.look),
            crowded.look_addr.eq(next_look),
            crowded.own_addr.eq(self.own_port),
            self.own_congested.eq(crowded.own),
            limits.clear.eq(self.ports_clear),
            limits.clear_addr.eq(self.ports_clear_addr),
            limits.write_en.eq(self.limits),
            limits.write_addr.eq(self.set_index),
            limits.write.eq(self.set_value),
            limits.look_addr.eq(next_look),
            waiting.eq(looked(placed) - returned),
            free.eq(returned - looked(promised)),
            # Too many cells wait; too few are free; there are as many bytes as the limit allows.  For one that is
            # congested there are other limits, so that it does not turn back at once.
            many.eq(Mux(was, ~at_most(waiting, (of.cells + 3) // 4 - 1), ~at_most(waiting, (of.cells + 1) // 2 - 1))),
            few.eq(Mux(was, at_most(free, (of.cells + kept) // 2), at_most(free, kept))),
            over.eq(~less_two(came, went, padded(least, largest))[-1] & ~least[largest - 1 :].any()),
            bound.look_addr.eq(look),
            tied.eq(bound.look | (late & (whom == look))),
            self.congested.eq(congested),
        ]
        # Limits are multiples of the unit.
        limit = Mux(self.limits & (self.set_index == next_look), self.set_value, limits.look)
        shift = exact_log2(UNIT)
        m.d.sync += [
            was.eq(seen), least.eq(Mux(seen, limit << (shift - 1), limit << shift)),
            self.turned.eq(~was), self.turned_index.eq(look),
            self.turns.eq(self.ready & ((tied & (over | many | few)) ^ was)),
        ]  # fmt: skip
        with m.If(self.turns):
            m.d.sync += congested.bit_select(self.turned_index, 1).eq(self.turned)


def _next(value, size: int):
    """The value after ``value`` in 0 … size−1, in gates."""
    following = _stepped(value, Const(1, 1), Const(0, 1))
    return following if size == 1 << len(value) else Mux(value == size - 1, 0, following)


def _stepped(value, more, less):
    """``value`` with one more, or one less, in gates: of few bits that is faster than a carry."""
    return Cat(
        bit ^ (more & value[:i].all()) ^ (less & ~value[:i].any()) if i else bit ^ (more | less)
        for i, bit in enumerate(value)
    )


def less_two(value, one, other):
    """``value`` less two others of its length.  Gates make two numbers of the three, so that one carry is enough."""
    sums, carries = value ^ ~one ^ ~other, (value & ~one) | (value & ~other) | (~one & ~other)
    return (Cat(1, sums) + Cat(1, 1, carries))[1 : len(value) + 1]
