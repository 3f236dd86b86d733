"""Time-outs that follow measured round trips (cycle contract, section 4.6.1)."""

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from lethe.lib.memory import Ram
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
    """Seen from the transmitter, in *g+3*: a Send of ``slot`` starts; known to what acts in the next cycle or later."""
    return wiring.Signature({"valid": Out(1), "slot": Out(range(system.ni.slots)), "try_": Out(system.format.try_bits)})


def release_signature(system: System) -> wiring.Signature:
    """Seen from the action, in *c*: an Ack with this try ends the datagram in ``slot``.

    The class of its pair was that of ``ack`` three cycles before.
    """
    return stamp_signature(system)


def wait_signature(system: System) -> wiring.Signature:
    """Seen from who pushes a token: its distance class and step, and its ``delay``, less one."""
    distance, step = class_bits(system.graph), step_bits(system)
    return wiring.Signature({"distance": Out(distance), "step": Out(step), "delay": In(system.time_bits)})


class RoundTrip(wiring.Component):
    """Stamps the Sends, takes each release as a sample, and keeps the time-out of each distance class.

    A sample in *c* goes through six steps, one a cycle from *c+2* on: its age; at most the ceiling; mean; deviation;
    their sum; and the time-out, which is used from *c+10* on.  Each number is read and written in one step, so samples
    of one class may come in successive cycles.  Reset restores the first numbers; the stamps are cleared by the walk
    after it.

    Parameters
    ----------
    system : with a ceiling

    Members
    -------
    time_base : In
        The time base.
    clear : In(`clear_signature`)
        Initialise the stamp of a slot.
    stamp : In(`stamp_signature`)
    release : In(`release_signature`)
    ack : In(`wait_signature`)
        Class of the pair and step in *c−3*, of what acts in *c*, and may push a token to the Ack ladder; the delay in
        *c*, a register.
    send : In(`wait_signature`)
        Of a token that is pushed to the Send ladder in *g+3*: class and step in *g+2*, the delay in *g+3*.
    """

    def __init__(self, system: System):
        if not system.measured:
            raise ValueError("timers.ceiling must not be 0")
        self._system = system
        super().__init__(
            {
                "time_base": In(system.time_bits),
                "clear": In(clear_signature(range(system.ni.slots))),
                "stamp": In(stamp_signature(system)),
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
        clear, stamp, release = self.clear, self.stamp, self.release

        def later(value: Value, cycles: int = 1) -> list[Value]:
            """The same 0, 1, … ``cycles`` cycles later."""
            values = [value]
            for _ in range(cycles):
                values.append(Signal.like(values[-1], name=""))
                m.d.sync += values[-1].eq(values[-2])
            return values

        # The stamps, written one cycle late.  What is written while it is read is not needed: it is known.
        layout = data.StructLayout({"time": system.time_bits, "try": system.format.try_bits})
        m.submodules.stamps = stamps = Ram(layout, system.ni.slots)
        stamped, slot, kept = Signal(), Signal(range(system.ni.slots)), Signal(layout)
        m.d.sync += [
            stamped.eq(stamp.valid),
            slot.eq(stamp.slot),
            kept.time.eq(self.time_base),
            kept["try"].eq(stamp.try_),
        ]
        m.d.comb += [
            stamps.write_en.eq(stamped | clear.valid),
            stamps.write_addr.eq(Mux(clear.valid, clear.index, slot)),
            stamps.write_data.eq(Mux(clear.valid, 0, kept)),
            stamps.read_addr.eq(release.slot),
        ]
        fresh = later(stamped & (slot == release.slot), 2)[-1]
        tried, echo = later(kept["try"], 2)[-1], later(release.try_, 2)[-1]
        # A fresh stamp is of the cycle before: time was the same, or one less.
        *_, then, before = later(self.time_base, 3)

        # What each step hands on; the class comes three cycles before the sample.
        distance = later(self.ack.distance, 10)[3:]
        age = Signal(system.time_bits)
        measured = Signal(range(ceiling + 1))
        error = Signal.like(measured)
        means = [Signal(range(ceiling + 1), name=f"mean{i}") for i in range(2)]
        deviation, total = Signal(range(4 * ceiling + 4)), Signal(range(5 * ceiling + 4))
        known = Mux(fresh, tried, stamps.read_data["try"])
        sampled = [Const(0)] * 3 + later(later(release.valid, 2)[-1] & (known == echo), 5)[1:]

        # Eight means (at most 8 · ceiling + 7), four mean deviations (4 · ceiling + 3), and the time-outs, less one.
        eights = Array(
            Signal(range(8 * ceiling + 8), init=8 * (d - system.slack), name=f"eight{q}") for q, d in enumerate(lowest)
        )
        fours = Array(Signal.like(deviation, init=system.slack, name=f"four{q}") for q in range(len(lowest)))
        waits = Array(Signal(range(ceiling), init=d - 1, name=f"wait{q}") for q, d in enumerate(lowest))
        # How often each can double and is not above the ceiling.
        fitting = [[d << s <= ceiling for s in range(1, steps + 1)] for d in lowest]
        doublings = Array(
            Signal(step_bits(system), init=sum(fits), name=f"doublings{q}") for q, fits in enumerate(fitting)
        )

        # c+2: the age.  c+3: the sample.
        m.d.sync += [
            age.eq(Mux(fresh, then[0] ^ before[0], then - stamps.read_data.time)),
            measured.eq(Mux(age > ceiling, ceiling, age)),
        ]

        # c+4: the mean.
        eight, next_eight = Signal.like(eights[0]), Signal.like(eights[0])
        more, less = Signal(signed(len(measured) + 1)), Signal.like(measured)
        m.d.comb += [
            eight.eq(eights[distance[4]]),
            next_eight.eq(eight + measured - (eight >> 3)),
            more.eq(measured - (eight >> 3)),
            less.eq((eight >> 3) - measured),
        ]
        m.d.sync += [error.eq(Mux(more < 0, less, more)), means[0].eq(next_eight >> 3)]
        with m.If(sampled[4]):
            m.d.sync += eights[distance[4]].eq(next_eight)

        # c+5: the deviation.
        four, next_four = Signal.like(deviation), Signal.like(deviation)
        m.d.comb += [
            four.eq(fours[distance[5]]),
            next_four.eq(four - (four >> 2) + error),
        ]
        m.d.sync += [deviation.eq(next_four), means[1].eq(means[0])]
        with m.If(sampled[5]):
            m.d.sync += fours[distance[5]].eq(next_four)

        # c+6: the sum.  c+7: the time-out, and how often it can double.
        m.d.sync += total.eq(means[1] + deviation)
        first, most = Signal.like(measured), Const(0)
        m.d.comb += first.eq(Array(lowest)[distance[7]])
        for s in range(1, steps + 1):
            fits = Array(f[s - 1] for f in fitting)[distance[7]] & (total <= ceiling >> s)
            most = Mux(fits, s, most)
        with m.If(sampled[7]):
            m.d.sync += [
                waits[distance[7]].eq(Mux(total <= first, first - 1, Mux(total >= ceiling, ceiling - 1, total - 1))),
                doublings[distance[7]].eq(most),
            ]

        def doubled(wait: Value, often: Value, bits: range) -> Value:
            """As these bits of ``often`` say.  Shifting ones in doubles the delay, not the delay less one."""
            for i in bits:
                wait = Mux(often[i], Cat(Const(-1, 1 << i), wait)[: len(wait)], wait)
            return wait

        def delay(waits: Array, doublings: Array, distance: Value, step: Value, late: range, early: range) -> Value:
            """The time-out of a class is doubled in two parts, with registers between."""
            often = Array(Mux(step > most, most, step) for most in doublings)[distance]
            wait, rest = Signal.like(waits[0]), Signal.like(self.ack.step)
            m.d.sync += [wait.eq(doubled(waits[distance], often, early)), rest.eq(often)]
            return doubled(wait, rest, late)

        # An Ack's delay is chosen in c−2, and doubled in c−1.  A Send's is chosen one cycle later, so it uses the
        # time-outs of one cycle before; one doubling is as it is chosen, so that the way to its sum is short.
        every = range(steps.bit_length())
        asked, step = later(self.ack.distance)[-1], later(self.ack.step)[-1]
        before_waits, before_doublings = (Array(later(each)[-1] for each in of_all) for of_all in (waits, doublings))
        send = (before_waits, before_doublings, self.send.distance, self.send.step)
        m.d.comb += [
            self.ack.delay.eq(later(delay(waits, doublings, asked, step, every, every[:0]))[-1]),
            self.send.delay.eq(delay(*send, every[:-1], every[-1:])),
        ]
        return m
