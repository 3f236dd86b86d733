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

    A sample in *c* goes through five steps, one a cycle: its age, at most the ceiling; mean; deviation; and the
    time-out, which readers see in *c+5* and so is used from *c+6* on.  Each number is read and written in one step, so
    samples of one class may come in successive cycles.  Reset restores the first numbers; the stamps are cleared by the
    walk after it.

    Parameters
    ----------
    system : with a ceiling

    Members
    -------
    time_base, advance : In
        The time base, and whether it is one more in the next cycle.
    clear, index : In
        Initialise the stamp of slot ``index``.
    stamp, stamped_slot, stamped_try : In
        A Send of ``stamped_slot`` starts; known to what acts in the next cycle or later.
    look, ack_distance, ack_step : In
        In *c−1*, of what acts in *c*: the slot, if it is an Ack; the class of the pair; the step of a token that is
        pushed.
    released, echo : In
        In *c*: an Ack with this try ends the datagram.
    ack_wait : Out(time_bits)
        In *c*: the delay, less one, of a token that is pushed to the Ack ladder.
    send_step, send_distance : In, send_wait : Out(time_bits)
        Of a token that is pushed to the Send ladder in *g+1*: its step in *g*; in *g+1* its class, and its delay, less
        one.
    """

    def __init__(self, system: System):
        if not system.measured:
            raise ValueError("timers.ceiling must not be 0")
        self._system = system
        form, slot = system.format, range(system.ni.slots)
        distance, step = class_bits(system.graph), step_bits(system)
        super().__init__(
            {
                "time_base": In(system.time_bits),
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
            write.data.time.eq(Mux(self.clear, 0, self.time_base)),
            write.data["try"].eq(Mux(self.clear, 0, self.stamped_try)),
            read.addr.eq(self.look),
            stamped.eq(write.en & (write.addr == read.addr)),
            read.en.eq(~stamped),
        ]
        m.d.sync += [fresh.eq(stamped), went.eq(self.advance), tried.eq(self.stamped_try)]

        # What each step hands on.
        age = Signal(system.time_bits)
        measured, early_mean, mean = (Signal(range(ceiling + 1), name=n) for n in ("measured", "early_mean", "mean"))
        error = Signal(signed(len(measured) + 1))
        deviation = Signal(range(4 * ceiling + 4))
        sampled = [Signal(name=f"sampled{i}") for i in range(1, 5)]
        distance = [Signal.like(self.ack_distance, name=f"distance{i}") for i in range(5)]
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
        m.d.sync += age.eq(Mux(fresh, went, self.time_base - read.data.time))

        # c+1: the sample.
        m.d.sync += measured.eq(Mux(age > ceiling, ceiling, age))

        # c+2: the mean.
        eight, next_eight = Signal.like(means[0]), Signal.like(means[0])
        difference = Signal.like(error)
        m.d.comb += [
            eight.eq(means[distance[2]]),
            difference.eq(measured - (eight >> 3)),
            next_eight.eq(eight + difference),
        ]
        m.d.sync += [error.eq(difference), early_mean.eq(next_eight >> 3)]
        with m.If(sampled[1]):
            m.d.sync += means[distance[2]].eq(next_eight)

        # c+3: the deviation.
        four, next_four = Signal.like(deviation), Signal.like(deviation)
        m.d.comb += [
            four.eq(deviations[distance[3]]),
            next_four.eq(four - (four >> 2) + Mux(error < 0, -error, error)),
        ]
        m.d.sync += [deviation.eq(next_four), mean.eq(early_mean)]
        with m.If(sampled[2]):
            m.d.sync += deviations[distance[3]].eq(next_four)

        # c+4: the time-out, and how often it can double.
        total, first, most = Signal(range(5 * ceiling + 4)), Signal.like(measured), Const(0)
        m.d.comb += [total.eq(mean + deviation), first.eq(Array(lowest)[distance[4]])]
        for s in range(1, steps + 1):
            fits = Array(f[s - 1] for f in fitting)[distance[4]] & (total <= ceiling >> s)
            most = Mux(fits, s, most)
        with m.If(sampled[3]):
            m.d.sync += [
                waits[distance[4]].eq(Mux(total <= first, first - 1, Mux(total >= ceiling, ceiling - 1, total - 1))),
                doublings[distance[4]].eq(most),
            ]

        # Shifting ones in doubles the delay, not the delay less one.  Step by step, for Yosys would make one shifter
        # for several classes and readers, with long paths to choose between them.
        def doubled(wait: Value, most: Value, step: Value) -> Value:
            doublings = Mux(step > most, most, step)
            for i in range(steps.bit_length()):
                wait = Mux(doublings[i], Cat(Const(-1, 1 << i), wait)[: len(wait)], wait)
            return wait

        # A Send's class comes last, so the delays of all classes wait for it.
        sent = Array(Signal.like(wait, name=f"sent{q}") for q, wait in enumerate(waits))
        m.d.sync += [
            own.eq(doubled(wait, most, self.send_step)) for own, wait, most in zip(sent, waits, doublings, strict=True)
        ]
        # An Ack's class comes late in the cycle before, so its delay is doubled in its own.
        ack_wait, ack_most, ack_step = Signal.like(waits[0]), Signal.like(self.ack_step), Signal.like(self.ack_step)
        m.d.sync += [
            ack_wait.eq(waits[self.ack_distance]),
            ack_most.eq(doublings[self.ack_distance]),
            ack_step.eq(self.ack_step),
        ]
        m.d.comb += [
            self.send_wait.eq(sent[self.send_distance]),
            self.ack_wait.eq(doubled(ack_wait, ack_most, ack_step)),
        ]
        return m
