"""Chooses what acts four cycles later: an arrived message, or else an internal request."""

from functools import reduce
from operator import or_

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from lethe.spec.config import System
from lethe.spec.events import Kind
from lethe.spec.ports import STATUS_BITS, cause_bits
from lethe.spec.stages import CHOSEN

from .ladder import held_layout
from .layouts import TRIES_BITS, Records
from .receive_table import set_of
from .receiver import arrival_signature

__all__ = ["Choose", "act_layout", "echoed", "request_members"]


def kinds_of(system: System) -> dict[str, Kind]:
    """The kinds of messages that act, by the names of their bits in an act."""
    kinds = {"send": Kind.SEND, "ack": Kind.ACK, "forget": Kind.FORGET, "best_effort": Kind.BE}
    return kinds | ({"reject": Kind.REJECT} if system.ni.reject else {})


def request_members(system: System, *, dump: bool) -> dict:
    """The ports for internal requests, the most urgent first: streams, and the hold registers of the ladders."""
    records = Records(system)
    payloads: dict = {
        "finish": records.finish,
        "repeat_hold": held_layout(system, records.token),
        "ack_hold": held_layout(system, records.ack_token),
        "cancel": records.cancel,
    }
    if system.ni.sweep:
        payloads["sweep"] = records.sweep
    if dump:
        payloads["dump"] = range(max(system.ni.slots, system.ni.sets))
    return {name: In(stream.Signature(payload)) for name, payload in payloads.items()}


def echoed(system: System) -> tuple[str, ...]:
    """The fields of a Send that its Acks return."""
    return ("try", "path") if system.format.path_bits else ("try",)


def act_layout(system: System) -> data.StructLayout:
    """What acts in *c*.

    A ``message`` acts, or one of ``finishing`` … ``sweeping``, or nothing.  ``send`` … ``best_effort``, ``reject``: a
    message of this kind, good or not.  ``early``: the tables were not initialised when they were read.  ``source`` …
    ``try``: whose datagram, and which of its tries; only a message or an Ack token names another node's, and a sweep
    nothing but a ``source``.  ``set``: the
    set looked at.  The rest is of the message, of the token (``way``, ``tries``; ``rung`` is that of its next try) or
    of the datagram that finishes (``status``, ``cause``).
    """
    records = Records(system)
    header = records.header.members
    taken = ("finishing", "repeating", "acking", "cancelling", "dumping", *(("sweeping",) if system.ni.sweep else ()))
    return data.StructLayout(
        {
            "message": 1,
            **dict.fromkeys((*kinds_of(system), *taken, "early"), 1),
            **{name: header[name] for name in ("source", "slot", "generation", "incarnation", *echoed(system))},
            **{name: header[name] for name in ("destination", "peer_incarnation", "length", "class")},
            "set": records.set,
            "way": records.way_bits,
            "tries": TRIES_BITS,
            "rung": records.rung,
            "status": STATUS_BITS,
            "cause": cause_bits(system),
        }
    )


def _one_of(choices) -> Value:
    """The value whose condition holds, of pairs (value, condition) of which at most one does; else 0."""
    return reduce(or_, (value & condition.replicate(len(value)) for value, condition in choices))


class Choose(wiring.Component):
    """Chooses in *c−4* what acts in *c*.

    An arriving message always wins, so it never waits.

    Members
    -------
    ready, quiesce : In
    arrival : In(`arrival_signature`)
        The receiver, in *c−4*.
    finish, repeat_hold, ack_hold, cancel : In(stream)
        The internal requests, the most urgent first; taken in *c−4*.
    sweep : In(stream), with ``ni.sweep``
        One step of it is chosen in *c−4*, unless another acts in *c−4* … *c−1*; taken in the *c* of the last.
    onward : In(1), with ``ni.sweep``
        In *c*: a step found nothing in its set; the next is for the next set.
    dump : In(stream), unless ``dump`` is False
        The last of them, taken only while ``quiesce``, and while nothing acts in *c−4* … *c−1*.
    slot, set : Out
        In *c−4*: the slot and the set to look at.
    act : Out(`act_layout`)
        In *c−3*.
    """

    def __init__(self, system: System, *, dump: bool = True):
        self._system = system
        records = Records(system)
        self._requests = request_members(system, dump=dump)
        super().__init__(
            {
                "ready": In(1),
                "quiesce": In(1),
                "arrival": In(arrival_signature(system)),
                **self._requests,
                **({"onward": In(1)} if system.ni.sweep else {}),
                "slot": Out(records.header["slot"].shape),
                "set": Out(records.set),
                "act": Out(act_layout(system)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        system, act = self._system, self.act
        message, header = self.arrival.complete, self.arrival.header
        repeat, hold = self.repeat_hold.payload, self.ack_hold.payload.token

        # What was chosen in the last four cycles, which acts from now on.
        chosen, dump_too, sweep_too = Signal(CHOSEN), "dump" in self._requests, "sweep" in self._requests
        steps = Signal(CHOSEN) if sweep_too else Const(0)
        takes = {name: Signal(name=f"takes_{name}") for name in self._requests}
        free = ~message & self.ready
        for name, take in takes.items():
            port = getattr(self, name)
            offered = free
            if name == "dump":
                offered = free & self.quiesce & ~chosen.any()
            elif name == "sweep":
                offered = free & ~steps.any()
            if name == "sweep":
                m.d.comb += take.eq(port.valid & offered)
            else:
                m.d.comb += [port.ready.eq(offered), take.eq(port.valid & port.ready)]
            free = free & ~port.valid
        asked = Cat(port.valid for port in (self.finish, self.repeat_hold, self.ack_hold, self.cancel)).any()
        dumps = self.dump.valid & self.quiesce & ~chosen.any() if dump_too else 0
        if sweep_too:
            asked = asked | (self.sweep.valid & ~steps.any())
        m.d.sync += chosen.eq(Cat(message | (self.ready & (asked | dumps)), chosen))

        # What they name, the most urgent first.
        own = [(self.finish, self.finish.payload), (self.repeat_hold, repeat.token), (self.ack_hold, hold)]
        own += [(self.cancel, self.cancel.payload)]
        asked_set, slot, generation = Signal.like(self.set), Signal.like(self.slot), Signal(act.generation.shape())
        # Who it is is known apart from its slot: from there the way to the tables is long.
        lives, others = [(header, message)], ~message
        for port, life in own:
            lives.append((life, others & port.valid))
            others = others & ~port.valid
        # Of the two that are more urgent, of the two that are less, and then one of these, so that the way is short.
        first, second = (Signal.like(self.slot, name=f"slot_of_{urgent}") for urgent in ("first", "second"))
        rest = self.dump.payload if dump_too else 0
        m.d.comb += [
            first.eq(Mux(self.finish.valid, self.finish.payload.slot, repeat.token.slot)),
            second.eq(Mux(self.ack_hold.valid, hold.slot, Mux(self.cancel.valid, self.cancel.payload.slot, rest))),
            slot.eq(
                self.arrival.slot | Mux(message, 0, Mux(self.finish.valid | self.repeat_hold.valid, first, second))
            ),
            generation.eq(_one_of([(life.generation, names) for life, names in lives])),
            self.slot.eq(slot),
            # Nothing but a message, an Ack token and a dump looks at a set.
            asked_set.eq(hold.set),
            self.set.eq(Mux(message, set_of(system, header.source, header.slot), asked_set)),
        ]
        if dump_too:
            with m.If(~self.ack_hold.valid):
                m.d.comb += asked_set.eq(self.dump.payload[: (system.ni.sets - 1).bit_length()])
        source = hold.source
        if sweep_too:
            index, last = Signal.like(self.set), system.ni.sets - 1
            source = Mux(self.ack_hold.valid, hold.source, self.sweep.payload.source)
            with m.If(~self.ack_hold.valid & self.sweep.valid):
                m.d.comb += asked_set.eq(index)
            m.d.comb += self.sweep.ready.eq(self.onward & (index == last))
            m.d.sync += [steps.eq(Cat(takes["sweep"], steps)), act.sweeping.eq(takes["sweep"])]
            with m.If(self.onward):
                m.d.sync += index.eq(Mux(index == last, 0, index + 1))

        held = {name: hold[name] for name in ("incarnation", *echoed(system))}
        if system.timers.path_after:
            held["path"] = Mux(takes["repeat_hold"], repeat.token.path, hold.path)
        m.d.sync += [
            act.message.eq(message),
            *(act[name].eq(message & (header.kind == kind)) for name, kind in kinds_of(system).items()),
            act.finishing.eq(takes["finish"]),
            act.repeating.eq(takes["repeat_hold"]),
            act.acking.eq(takes["ack_hold"]),
            act.cancelling.eq(takes["cancel"]),
            act.dumping.eq(takes.get("dump", 0)),
            act.early.eq(~self.ready),
            act.slot.eq(slot),
            act.generation.eq(generation),
            act.source.eq(Mux(message, header.source, source)),
            *(act[name].eq(Mux(message, header[name], held[name])) for name in ("incarnation", *echoed(system))),
            *(act[name].eq(header[name]) for name in ("destination", "peer_incarnation", "length", "class")),
            act.set.eq(self.set),
            act.way.eq(hold.way),
            act.tries.eq(Mux(takes["repeat_hold"], repeat.token.tries, hold.tries)),
            act.rung.eq(Mux(takes["repeat_hold"], repeat.next_rung, self.ack_hold.payload.next_rung)),
            act.status.eq(self.finish.payload.status),
            act.cause.eq(self.finish.payload.cause),
        ]
        return m
