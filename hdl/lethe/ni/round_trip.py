"""Time-outs that follow measured round trips (cycle contract, section 4.6.1)."""

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from lethe.spec.config import System

from .distance import class_bits

__all__ = ["RoundTrip", "step_bits", "step_of"]


def step_bits(system: System) -> range:
    """Shape of a step: how often the time-out of a class has doubled."""
    return range(max(2, system.timers.backoff_steps + 1))


def step_of(system: System, rung: Value) -> Value:
    """The step of a try that waits on ``rung``, if it is not the first."""
    classes = system.graph.distance_classes
    return Array(max(0, q - classes + 1) for q in range(system.rungs))[rung]


class RoundTrip(wiring.Component):
    """Stamps the Sends, takes each release as a sample, and keeps the time-out of each distance class.

    A sample in *c* goes through five steps, one a cycle: its age, at most the ceiling; mean; deviation; their sum;
    and the time-out, which is used from *c+6* on.  Each number is read and written in one step, so samples of one class
    may come in successive cycles.  Reset restores the first numbers; the stamps are cleared by the walk after it.

    Parameters
    ----------
    system : with a ceiling

    Members
    -------
    time, advance : In
        The time base, and whether it is one more in the next cycle.
    clear, index : In
        Initialise the stamp of slot ``index``.
    stamp, stamped_slot, stamped_try : In
        A Send of ``stamped_slot`` starts; known to what acts in the next cycle or later.
    look : In
        In *c−1*: the slot that is acted on in *c*.
    released, echo : In
        In *c*: an Ack with this try ends the datagram; its class is ``ack_distance``.
    send_distance, send_step, ack_distance, ack_step : In
        Class and step of a token that is pushed in this cycle.
    send_wait, ack_wait : Out(time_bits)
        In the same cycle: that token's delay, less one.
    """

    def __init__(self, system: System):
        if not system.measured:
            raise ValueError("timers.ceiling must not be 0")
        self._system = system
        form, slot = system.format, range(system.ni.slots)
        distance, step = class_bits(system.graph), step_bits(system)
        super().__init__(
            {
                "time": In(system.time_bits),
                "advance": In(1),
                "clear": In(1),
                "index": In(slot),
                "stamp": In(1),
                "stamped_slot": In(slot),
                "stamped_try": In(form.try_bits),
                "look": In(slot),
                "released": In(1),
                "echo": In(form.try_bits),
                "send_distance": In(distance),
                "send_step": In(step),
                "ack_distance": In(distance),
                "ack_step": In(step),
                "send_wait": Out(system.time_bits),
                "ack_wait": Out(system.time_bits),
            }
        )

    def elaborate(self, platform):
        m = Module()
        system = self._system
        ceiling, steps = system.ceiling, system.timers.backoff_steps
        lowest = system.delays[: system.graph.distance_classes]

        # The stamps.  A slot is never read where it is written: what would be read is known without.
        layout = data.StructLayout({"time": system.time_bits, "try": system.format.try_bits})
        m.submodules.stamps = stamps = Memory(shape=layout, depth=system.ni.slots, init=[])
        write, read = stamps.write_port(), stamps.read_port()
        stamped, fresh, went, tried = Signal(), Signal(), Signal(), Signal.like(self.echo)
        m.d.comb += [
            write.en.eq(self.stamp | self.clear),
            write.addr.eq(Mux(self.clear, self.index, self.stamped_slot)),
            write.data.time.eq(Mux(self.clear, 0, self.time)),
            write.data["try"].eq(Mux(self.clear, 0, self.stamped_try)),
            read.addr.eq(self.look),
            stamped.eq(write.en & (write.addr == read.addr)),
            read.en.eq(~stamped),
        ]
        m.d.sync += [fresh.eq(stamped), went.eq(self.advance), tried.eq(self.stamped_try)]

        # What each step hands on.
        age = Signal(system.time_bits)
        measured = Signal(range(ceiling + 1))
        error = Signal(signed(len(measured) + 1))
        mean = Signal(range(ceiling + 1))
        total = Signal(range(5 * ceiling + 4))
        sampled = [Signal(name=f"sampled{i}") for i in range(1, 6)]
        distance = [Signal.like(self.ack_distance, name=f"distance{i}") for i in range(1, 6)]
        m.d.sync += [
            Cat(sampled).eq(Cat(self.released & (Mux(fresh, tried, read.data["try"]) == self.echo), *sampled)),
            Cat(distance).eq(Cat(self.ack_distance, *distance)),
        ]

        # Eight means (at most 8 · ceiling + 7), four mean deviations (4 · ceiling + 3), and the time-outs, less one.
        means = Array(
            Signal(range(8 * ceiling + 8), init=8 * (d - system.slack), name=f"means{q}") for q, d in enumerate(lowest)
        )
        deviations = Array(
            Signal(range(4 * ceiling + 4), init=system.slack, name=f"deviations{q}") for q in range(len(lowest))
        )
        waits = Array(Signal(range(ceiling), init=d - 1, name=f"wait{q}") for q, d in enumerate(lowest))
        # How often each can double and is not above the ceiling.
        fitting = [[d << s <= ceiling for s in range(1, steps + 1)] for d in lowest]
        doublings = Array(
            Signal(step_bits(system), init=sum(fits), name=f"doublings{q}") for q, fits in enumerate(fitting)
        )

        # c: the age.
        m.d.sync += age.eq(Mux(fresh, went, self.time - read.data.time))

        # c+1: the sample.
        m.d.sync += measured.eq(Mux(age > ceiling, ceiling, age))

        # c+2: the mean.
        eight, difference = Signal.like(means[0]), Signal.like(error)
        m.d.comb += [eight.eq(means[distance[1]]), difference.eq(measured - (eight >> 3))]
        m.d.sync += error.eq(difference)
        with m.If(sampled[1]):
            m.d.sync += means[distance[1]].eq(eight + difference)

        # c+3: the deviation.  The mean after this sample is read before the next one changes it.
        four = Signal.like(deviations[0])
        m.d.comb += four.eq(deviations[distance[2]])
        m.d.sync += mean.eq(means[distance[2]] >> 3)
        with m.If(sampled[2]):
            m.d.sync += deviations[distance[2]].eq(four - (four >> 2) + Mux(error < 0, -error, error))

        # c+4: their sum.
        m.d.sync += total.eq(mean + deviations[distance[3]])

        # c+5: the time-out.
        with m.If(sampled[4]):
            first = Array(lowest)[distance[4]]
            bounded = Mux(total >= ceiling, ceiling - 1, total - 1)
            m.d.sync += waits[distance[4]].eq(Mux(total <= first, first - 1, bounded))
            most = Const(0)
            for s in range(1, steps + 1):
                fits = Array(f[s - 1] for f in fitting)[distance[4]] & (total <= ceiling >> s)
                most = Mux(fits, s, most)
            m.d.sync += doublings[distance[4]].eq(most)

        # Shifting ones in doubles the delay, not the delay less one.  Selected by hand: Yosys would share a shifter
        # between classes, which puts the choice of the class before it.
        def doubled(wait: Value, most: Value, step: Value) -> Value:
            doublings = Mux(step > most, most, step)
            for i in range(steps.bit_length()):
                wait = Mux(doublings[i], Cat(Const(-1, 1 << i), wait)[: len(wait)], wait)
            return wait

        # The class of a Send comes late, so it chooses last.
        m.d.comb += [
            self.send_wait.eq(
                Array(doubled(*own, self.send_step) for own in zip(waits, doublings, strict=True))[self.send_distance]
            ),
            self.ack_wait.eq(doubled(waits[self.ack_distance], doublings[self.ack_distance], self.ack_step)),
        ]
        return m
