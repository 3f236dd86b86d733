"""Own ports: what they are bound to, their free cells, and which of them are congested (contract of flow, 6 and 7)."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from lethe.lib.queue import step
from lethe.lib.table import Words

from .layouts import Layouts

__all__ = ["Ports"]

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
    bound, congested : Out(ports)
    judged_full, judged_crowded : Out(1)
        ``judged_port`` has no free cell, or but those for expected numbers, in this very cycle.
    own_full : Out(1)
        ``own_port`` of the cycle before has no free cell.
    NAME_port, NAME_number : In, Out(16)
        The number of a port, for those who ask: judged, fetched, sent, own.
    offer_port, offer_room : In, Out
        Half of the free cells of a port, at most 14.
    job_port, job_room : In, Out
        A port, and in the next cycle the same of it as of the start of that cycle.
    accept_takes, accept_port, own_takes, own_port : In
        A cell of a port is promised.
    frees, freed_port, freed_cell, freed_length : In
        A cell is free again, and so many bytes less are in its port.
    free_port, free_cell, free_takes : In, Out, In
        The oldest free cell of a port, in this very cycle; it is taken.
    fills, fill_port, fill_length : In
        So many bytes more are in a port.
    turns, turned, turned_index : Out
        A port becomes congested, or is so no more.
    nothing_used, all_used, used_moves : Out
        No cell is used; how many are; that of a port changes.
    ready, clear, clear_addr : In
        Initialised; the walk before that.
    """

    def __init__(self, layouts: Layouts):
        self._layouts = layouts
        of = layouts
        port = of.port_bits
        askers = ("judged", "fetched", "sent", "own")
        self._room = range(MOST_ROOM + 1)
        super().__init__(
            {
                "binds": In(1), "unbinds": In(1), "limits": In(1), "set_index": In(port), "set_value": In(16),
                "bound": Out(of.ports), "congested": Out(of.ports),
                "judged_full": Out(1), "judged_crowded": Out(1), "own_full": Out(1),
                **{f"{name}_port": In(port) for name in askers},
                **{f"{name}_number": Out(16) for name in askers},
                "offer_port": In(port), "offer_room": Out(self._room),
                "job_port": In(port), "job_room": Out(self._room),
                "accept_takes": In(1), "accept_port": In(port), "own_takes": In(1),  # of own_port
                "frees": In(1), "freed_port": In(port), "freed_cell": In(of.cell_bits),
                "freed_length": In(of.length_bits),
                "free_port": In(port), "free_cell": Out(of.cell_bits), "free_takes": In(1),
                "fills": In(1), "fill_port": In(port), "fill_length": In(of.length_bits),
                "turns": Out(1), "turned": Out(1), "turned_index": Out(port),
                "nothing_used": Out(1), "all_used": Out(16), "used_moves": Out(1),
                "ready": In(1), "clear": In(1), "clear_addr": In(range(of.initial)),
            }
        )  # fmt: skip
        self._askers = askers

    def elaborate(self, platform):
        m = Module()
        of, system = self._layouts, self._layouts.system
        clears = self.clear & (self.clear_addr < of.ports)

        # Bound.
        m.submodules.numbers = numbers = Words(16, of.ports, self._askers)
        m.d.comb += [
            numbers.write_en.eq(self.binds | clears),
            numbers.write_addr.eq(Mux(self.clear, self.clear_addr, self.set_index)),
            numbers.write.eq(Mux(self.clear, self.clear_addr, self.set_value)),
        ]
        for name in self._askers:
            m.d.comb += [
                getattr(numbers, f"{name}_addr").eq(getattr(self, f"{name}_port")),
                getattr(self, f"{name}_number").eq(getattr(numbers, name)),
            ]
        bound = Signal(of.ports, init=-1 if system.flow.bound else 0)
        m.d.comb += self.bound.eq(bound)
        which = Signal(of.ports)
        m.d.comb += which.eq(1 << self.set_index)
        m.d.sync += bound.eq((bound & ~Mux(self.unbinds, which, 0)) | Mux(self.binds, which, 0))

        self._cells_used(m, clears)
        self._free_cells(m)
        self._congestion(m, clears, bound)
        return m

    def _cells_used(self, m, clears):
        """Cells in use, or promised: of a port all that were promised, less all that were freed."""
        of, system = self._layouts, self._layouts.system
        bits = of.cells.bit_length()
        readers = {
            "judged": self.judged_port, "own": self.own_port, "offer": self.offer_port, "job": self.job_port,
        }  # fmt: skip
        m.submodules.promised = promised = Words(bits, of.ports, ("now", *readers))
        m.submodules.freed = freed = Words(bits, of.ports, ("now", *readers))
        takes = self.accept_takes | self.own_takes
        for table, moves, port in (
            (promised, takes, Mux(self.accept_takes, self.accept_port, self.own_port)),
            (freed, self.frees, self.freed_port),
        ):
            m.d.comb += [
                table.clear.eq(clears),
                table.clear_addr.eq(self.clear_addr),
                table.now_addr.eq(port),
                table.write_en.eq(moves),
                table.write_addr.eq(port),
                table.write.eq(table.now + 1),
                *(getattr(table, f"{name}_addr").eq(asked) for name, asked in readers.items()),
            ]
        used = {name: Signal(bits, name=f"{name}_used") for name in readers}
        for name, count in used.items():
            m.d.comb += count.eq(getattr(promised, name) - getattr(freed, name))

        def late(name, value_of):
            """A value in the next cycle: of what is used now, of one more, or of one less."""
            more, less = (table.write_en & (table.write_addr == readers[name]) for table in (promised, freed))
            count = used[name]
            values = [value_of((count + moved)[:bits]) for moved in (0, 1, -1)]
            return Mux(more == less, values[0], Mux(more, values[1], values[2]))

        m.d.sync += self.own_full.eq(late("own", lambda count: count == of.cells))
        m.d.comb += [
            self.judged_full.eq(used["judged"] == of.cells),
            self.judged_crowded.eq(used["judged"] >= of.cells - system.flow.in_order),
        ]

        def room(count):
            half = Signal(range(of.cells // 2 + 1))
            m.d.comb += half.eq((of.cells - count)[: bits + 1] >> 1)
            return Mux(half > MOST_ROOM, MOST_ROOM, half) if of.cells // 2 > MOST_ROOM else half

        m.d.comb += self.offer_room.eq(room(used["offer"]))
        m.d.sync += self.job_room.eq(late("job", room))
        total = Signal(range(of.ports * of.cells + 1))
        m.d.sync += total.eq(total + takes - self.frees)
        m.d.comb += [self.nothing_used.eq(total == 0), self.all_used.eq(total), self.used_moves.eq(takes | self.frees)]

    def _free_cells(self, m):
        """The free cells of each port: at first all of them, in their order."""
        of = self._layouts
        m.submodules.cells = cells = Words(of.cell_bits, of.ports << of.cell_bits, ("oldest",))
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
            cells.write_en.eq((self.clear & ~filled) | self.frees),
            cells.write_addr.eq(Mux(self.clear, Cat(cell, port), freed)),
            cells.write.eq(Mux(self.clear, cell, self.freed_cell)),
            cells.oldest_addr.eq(Cat(heads.now, self.free_port)),
            self.free_cell.eq(cells.oldest),
        ]
        for pointers, index, moves in ((heads, self.free_port, self.free_takes), (tails, self.freed_port, self.frees)):
            m.d.comb += [
                pointers.clear.eq(self.clear & (self.clear_addr < of.ports)),
                pointers.clear_addr.eq(self.clear_addr),
                pointers.now_addr.eq(index),
                pointers.write_en.eq(moves),
                pointers.write_addr.eq(index),
                pointers.write.eq(step(pointers.now, of.cells)),
            ]

    def _congestion(self, m, clears, bound):
        """A port's bytes are all that came, less all that went; one port is looked at in each cycle."""
        of, system = self._layouts, self._layouts.system
        most = (of.cells * of.mtu).bit_length()
        look = Signal(of.port_bits)
        m.d.sync += look.eq(look + 1)
        totals = []
        for name, moves, index, length in (
            ("came", self.fills, self.fill_port, self.fill_length),
            ("went", self.frees, self.freed_port, self.freed_length),
        ):
            m.submodules[name] = total = Words(most, of.ports, ("now", "look"))
            m.d.comb += [
                total.clear.eq(clears),
                total.clear_addr.eq(self.clear_addr),
                total.now_addr.eq(index),
                total.look_addr.eq(look),
                total.write_en.eq(moves),
                total.write_addr.eq(index),
                total.write.eq(total.now + length),
            ]
            totals.append(total)
        came, went = totals
        m.submodules.limits = limits = Words(16, of.ports, ("look",), init=system.flow_receive_limit // UNIT)
        inside, above, below = Signal(most), Signal(), Signal()
        here, was, tied = Signal(of.ports), Signal(), Signal()
        congested = Signal(of.ports)
        m.d.comb += [
            limits.clear.eq(clears),
            limits.clear_addr.eq(self.clear_addr),
            limits.write_en.eq(self.limits),
            limits.write_addr.eq(self.set_index),
            limits.write.eq(self.set_value),
            limits.look_addr.eq(look),
            inside.eq(came.look - went.look),
            # Limits are multiples of the unit.
            above.eq((inside // UNIT) >= limits.look),
            below.eq((inside // (UNIT // 2)) < limits.look),
            here.eq(1 << look),
            was.eq((congested & here).any()),
            tied.eq((bound & here).any()),
            self.congested.eq(congested),
            self.turned.eq(~was),
            self.turned_index.eq(look),
            self.turns.eq(self.ready & Mux(was, below | ~tied, above & tied)),
        ]
        with m.If(self.turns):
            m.d.sync += congested.eq(congested ^ here)
