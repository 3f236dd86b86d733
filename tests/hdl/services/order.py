"""A service nobody foresaw: the datagrams of each source come in the order of a number in their first byte."""

import enum

from amaranth.hdl import Array, Cat, Module, Mux, Signal
from amaranth.lib.memory import Memory
from amaranth.utils import ceil_log2

from lethe.services.service import ServiceTrace, ServiceUnit
from lethe.spec.events import Unit
from lethe.spec.services import Service

#: A source has fewer datagrams under way than this.
WINDOW = 8


class OrderCounter(enum.IntEnum):
    ORDERED = 0


ORDER = Service(
    name="order", unit=Unit.LOOP, lanes=(), flag_bits=(), counters=OrderCounter, named=lambda system: True,
    above=lambda system, below: below, size=lambda system: "",
)  # fmt: skip


class Order(ServiceUnit):
    """Datagram n of a source rests in place n mod `WINDOW` until those before it have gone up."""

    service = ORDER

    def serve(self, m: Module) -> ServiceTrace:
        nodes, below, above = self.system.nodes, self.below, self.above
        places, beat_bits = nodes * WINDOW, ceil_log2(self.system.slot_flits)
        beat_in, beat_out = below.deliver_data.payload, above.deliver_data.payload
        m.submodules.memory = memory = Memory(shape=beat_in.shape(), depth=places << beat_bits, init=[])
        write, read = memory.write_port(), memory.read_port(domain="comb")
        records = Array(Signal(below.deliver.payload.shape(), name=f"record{i}") for i in range(places))
        full = Array(Signal(name=f"full{i}") for i in range(places))
        due = Array(Signal(range(WINDOW), name=f"due{i}") for i in range(nodes))

        coming, record, index, held = Signal(), Signal(below.deliver.payload.shape()), Signal(beat_bits), Signal(3)
        number = Mux(index == 0, beat_in.data[:3], held)
        place = Cat(number, record.source)
        stored = coming & below.deliver_data.valid & ~full[place]
        m.d.comb += [
            below.deliver.ready.eq(~coming), below.deliver_data.ready.eq(stored),
            write.addr.eq(Cat(index, place)), write.data.eq(beat_in), write.en.eq(stored),
        ]  # fmt: skip
        with m.If(below.deliver.valid & ~coming):
            m.d.sync += [coming.eq(1), record.eq(below.deliver.payload), index.eq(0)]
        with m.If(stored):
            m.d.sync += [index.eq(index + 1), held.eq(number)]
            with m.If(beat_in.last):
                m.d.sync += [coming.eq(0), full[place].eq(1), records[place].eq(record)]

        source, going, at = Signal(range(nodes)), Signal(), Signal(beat_bits)
        first = Cat(due[source], source)
        ends = above.deliver_data.valid & above.deliver_data.ready & beat_out.last
        m.d.comb += [
            above.deliver.valid.eq(full[first] & ~going), above.deliver.payload.eq(records[first]),
            above.deliver_data.valid.eq(going), read.addr.eq(Cat(at, first)), beat_out.eq(read.data),
            above.idle.eq(below.idle & ~coming & ~Cat(full).any()),
        ]  # fmt: skip
        with m.If(above.deliver_data.valid & above.deliver_data.ready):
            m.d.sync += at.eq(at + 1)
        with m.If(above.deliver.valid & above.deliver.ready):
            m.d.sync += [going.eq(1), at.eq(0)]
        with m.Elif(ends):
            m.d.sync += [going.eq(0), full[first].eq(0), due[source].eq(due[source] + 1)]
        with m.Elif(~going & ~full[first]):
            m.d.sync += source.eq(Mux(source == nodes - 1, 0, source + 1))
        with m.If(self.node_reset):
            m.d.sync += [coming.eq(0), going.eq(0)]
        return ServiceTrace(pulses=[ends])
