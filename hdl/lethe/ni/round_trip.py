"""Time-outs that follow measured round trips (cycle contract, section 4.6.1)."""

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from lethe.spec.config import System

from .distance import class_bits
from .walk import clear_signature

__all__ = ["RoundTrip", "release_signature", "stamp_signature", "step_bits", "step_of", "wait_signature"]


def step_bits(system: System) -> range:
    """Shape of a step: how often the time-out of a class has doubled."""
    return range(max(2, system.timers.backoff_steps + 1))


def step_of(system: System, rung: Value) -> Value:
    """The step of a try that waits on ``rung``, if it is not the first."""
    classes = system.graph.distance_classes
    return Array(max(0, q - classes + 1) for q in range(system.rungs))[rung]


def stamp_signature(system: System) -> wiring.Signature:
    """Seen from the transmitter: a Send of ``slot`` starts; known to what acts in the next cycle or later."""
    return wiring.Signature({"valid": Out(1), "slot": Out(range(system.ni.slots)), "try_": Out(system.format.try_bits)})


def release_signature(system: System) -> wiring.Signature:
    """Seen from the action, in *c*: an Ack with this try ends the datagram of ``slot``."""
    slot = range(system.ni.slots)
    return wiring.Signature({"valid": Out(1), "slot": Out(slot), "try_": Out(system.format.try_bits)})


def wait_signature(system: System) -> wiring.Signature:
    """Seen from who pushes a token: its distance class and step, and its ``delay``, less one."""
    distance, step = class_bits(system.graph), step_bits(system)
    return wiring.Signature({"distance": Out(distance), "step": Out(step), "delay": In(system.time_bits)})


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
    clear : In(`clear_signature`)
        Initialise the stamp of a slot.
    stamp : In(`stamp_signature`)
    look : In
        In *c−1*: the slot of what acts in *c*, if it is an Ack.
    release : In(`release_signature`)
    ack : In(`wait_signature`)
        Class of the pair and step in *c−1*, of a token that may be pushed to the Ack ladder in *c*; its delay in *c*.
    send : In(`wait_signature`)
        Of a token that is pushed to the Send ladder in *g+1*: its step in *g*; class and delay in *g+1*.
    """

    def __init__(self, system: System):
        if not system.measured:
            raise ValueError("timers.ceiling must not be 0")
        self._system = system
        slot = range(system.ni.slots)
        super().__init__(
            {
                "time_base": In(system.time_bits),
                "advance": In(1),
                "clear": In(clear_signature(slot)),
                "stamp": In(stamp_signature(system)),
                "look": In(slot),
                "release": In(release_signature(system)),
                "ack": In(wait_signature(system)),
                "send": In(wait_signature(system)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        system = self._system
        ceiling, steps = system.ceiling, system.timers.backoff_steps
        lowest = system.delays[: system.graph.distance_classes]
        clear, stamp = self.clear, self.stamp
        released, echo = self.release.valid, self.release.try_

        # The stamps.  A slot is never read where it is written: what would be read is known without.
        layout = data.StructLayout({"time": system.time_bits, "try": system.format.try_bits})
        m.submodules.stamps = stamps = Memory(shape=layout, depth=system.ni.slots, init=[])
        write, read = stamps.write_port(), stamps.read_port()
        stamped, fresh, went, tried = Signal(), Signal(), Signal(), Signal(system.format.try_bits)
        m.d.comb += [
            write.en.eq(stamp.valid | clear.valid),
            write.addr.eq(Mux(clear.valid, clear.index, stamp.slot)),
            write.data.time.eq(Mux(clear.valid, 0, self.time_base)),
            write.data["try"].eq(Mux(clear.valid, 0, stamp.try_)),
            read.addr.eq(self.look),
            stamped.eq(write.en & (write.addr == read.addr)),
            read.en.eq(~stamped),
        ]
        m.d.sync += [fresh.eq(stamped), went.eq(self.advance), tried.eq(stamp.try_)]

        # What each step hands on.
        age = Signal(system.time_bits)
        measured, early_mean, mean = (Signal(range(ceiling + 1), name=n) for n in ("measured", "early_mean", "mean"))
        error = Signal(signed(len(measured) + 1))
        deviation = Signal(range(4 * ceiling + 4))
        sampled = [Signal(name=f"sampled{i}") for i in range(1, 5)]
        distance = [Signal.like(self.ack.distance, name=f"distance{i}") for i in range(5)]
        m.d.sync += [
            Cat(sampled).eq(Cat(released & (Mux(fresh, tried, read.data["try"]) == echo), *sampled)),
            Cat(distance).eq(Cat(self.ack.distance, *distance)),
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
            own.eq(doubled(wait, most, self.send.step)) for own, wait, most in zip(sent, waits, doublings, strict=True)
        ]
        # An Ack's class comes late in the cycle before, so its delay is doubled in its own.
        ack_wait, ack_most, ack_step = Signal.like(waits[0]), Signal.like(self.ack.step), Signal.like(self.ack.step)
        m.d.sync += [
            ack_wait.eq(waits[self.ack.distance]),
            ack_most.eq(doublings[self.ack.distance]),
            ack_step.eq(self.ack.step),
        ]
        m.d.comb += [
            self.send.delay.eq(sent[self.send.distance]),
            self.ack.delay.eq(doubled(ack_wait, ack_most, ack_step)),
        ]
        return m
