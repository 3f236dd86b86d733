"""Chooses what acts in the next cycle: an arrived message, or else an internal request."""

from amaranth.hdl import Array, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from lethe.spec.config import System
from lethe.spec.events import Drop, Kind
from lethe.spec.ports import STATUS_BITS, cause_bits

from .distance import distance_class
from .ladder import held_layout
from .layouts import TRIES_BITS, Records
from .receive_table import set_of
from .receiver import CHECKS, arrival_signature
from .round_trip import step_bits, step_of

__all__ = ["Choose", "act_layout", "request_members"]


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
    if dump:
        payloads["dump"] = range(max(system.ni.slots, system.ni.sets))
    return {name: In(stream.Signature(payload)) for name, payload in payloads.items()}


def act_layout(system: System) -> data.StructLayout:
    """What acts in *c*.

    A ``message`` acts, or one of ``finishing`` … ``dumping``, or nothing.  ``sound``: a message in which nothing is
    ``wrong``; ``send`` … ``best_effort``, ``reject``: such a message of this kind; ``stale``: a Send that is
    sound but for the incarnation it expects (the last two with ``ni.reject``).  ``source`` … ``try``: whose datagram,
    and which of its tries; only a message or an Ack token names another node's.  ``for_us``, ``ours``: the message's
    peer incarnation, its incarnation is this node's.  ``set``: the set looked at.  The rest is of the message, of the
    token (``way``, ``tries``, ``ack_tries``, ``repeat_rung``) or of the datagram that finishes (``status``, ``cause``).
    ``rung``, ``delay``: of a token that is pushed to the Ack ladder, the delay less one.
    """
    records = Records(system)
    header = records.header.members
    stale = ("stale",) if system.ni.reject else ()
    taken = ("finishing", "repeating", "acking", "cancelling", "dumping")
    return data.StructLayout(
        {
            "message": 1,
            "sound": 1,
            "wrong": len(CHECKS),
            **dict.fromkeys((*kinds_of(system), *stale, *taken, "for_us", "ours"), 1),
            **{name: header[name] for name in ("source", "slot", "generation", "incarnation", "try")},
            **{name: header[name] for name in ("kind", "destination", "peer_incarnation", "length", "class")},
            "set": records.set,
            "way": records.way_bits,
            "tries": TRIES_BITS,
            "ack_tries": TRIES_BITS,
            "status": STATUS_BITS,
            "cause": cause_bits(system),
            "repeat_rung": records.rung,
            "rung": records.rung,
            "delay": range(max(system.delays) + 1),
        }
    )


class Choose(wiring.Component):
    """Chooses in *c−1*; what was chosen acts in *c*.

    An arriving message always wins, so it never waits.  Everything that needs no table is worked out here.

    Members
    -------
    node, incarnation, ready, quiesce : In
    arrival : In(`arrival_signature`)
        The receiver, in *c−1*.
    finish, repeat_hold, ack_hold, cancel : In(stream)
        The internal requests, the most urgent first; taken in *c−1*.
    dump : In(stream), unless ``dump`` is False
        The last of them, taken only while ``quiesce``.
    slot, set : Out
        In *c−1*: the slot and the set to look at.
    distance, step : Out, with measured round trips
        In *c−1*: class of the pair, and step of a token that is pushed to the Ack ladder.
    act : Out(`act_layout`)
        In *c*.
    """

    def __init__(self, system: System, *, dump: bool = True):
        self._system = system
        form, records = system.format, Records(system)
        self._requests = request_members(system, dump=dump)
        members = {"distance": Out(records.distance), "step": Out(step_bits(system))} if system.measured else {}
        super().__init__(
            {
                "node": In(form.node_bits),
                "incarnation": In(form.incarnation_bits),
                "ready": In(1),
                "quiesce": In(1),
                "arrival": In(arrival_signature(system)),
                **self._requests,
                "slot": Out(records.header["slot"].shape),
                "set": Out(records.set),
                "act": Out(act_layout(system)),
                **members,
            }
        )

    def elaborate(self, platform):
        m = Module()
        system, act = self._system, self.act
        message, header, wrong = self.arrival.complete, self.arrival.header, self.arrival.wrong
        hold = self.ack_hold.payload.token

        takes = {name: Signal(name=f"takes_{name}") for name in self._requests}
        free = ~message & self.ready
        for name, take in takes.items():
            port = getattr(self, name)
            offered = free & self.quiesce if name == "dump" else free
            m.d.comb += [port.ready.eq(offered), take.eq(port.valid & port.ready)]
            free = free & ~port.valid

        source, slot, generation, incarnation, echo = (
            Signal(header[name].shape(), name=f"chosen_{name}")
            for name in ("source", "slot", "generation", "incarnation", "try")
        )
        with m.If(message):
            m.d.comb += [
                source.eq(header.source),
                slot.eq(header.slot),
                generation.eq(header.generation),
                incarnation.eq(header.incarnation),
                echo.eq(header["try"]),
            ]
        with m.Else():
            m.d.comb += [source.eq(hold.source), incarnation.eq(hold.incarnation), echo.eq(hold["try"])]
            with m.If(self.finish.valid):
                own = self.finish.payload
                m.d.comb += [slot.eq(own.slot), generation.eq(own.generation)]
            with m.Elif(self.repeat_hold.valid):
                own = self.repeat_hold.payload.token
                m.d.comb += [slot.eq(own.slot), generation.eq(own.generation)]
            with m.Elif(self.ack_hold.valid):
                m.d.comb += [slot.eq(hold.slot), generation.eq(hold.generation)]
            with m.Elif(self.cancel.valid):
                own = self.cancel.payload
                m.d.comb += [slot.eq(own.slot), generation.eq(own.generation)]
            if "dump" in takes:
                with m.Else():
                    m.d.comb += slot.eq(self.dump.payload)

        m.d.comb += [
            self.slot.eq(slot),
            self.set.eq(Mux(message, set_of(system, header.source, header.slot), hold.set)),
        ]
        if "dump" in takes:
            with m.If(takes["dump"]):
                m.d.comb += self.set.eq(self.dump.payload[: (system.ni.sets - 1).bit_length()])

        # The rung and delay of the token this may push to the Ack ladder.
        next_rung = self.ack_hold.payload.next_rung
        rung, delay = Signal.like(next_rung), Signal(range(max(system.delays) + 1))
        distance = distance_class(m, system.graph, self.node, source if system.measured else header.source)
        m.d.comb += [
            rung.eq(Mux(message, distance, next_rung)),
            delay.eq(Array(delay - 1 for delay in system.delays)[rung]),
        ]
        if system.measured:
            m.d.comb += [self.distance.eq(distance), self.step.eq(Mux(message, 0, step_of(system, next_rung)))]

        sound = message & ~wrong.any()
        m.d.sync += [
            act.message.eq(message),
            act.sound.eq(sound),
            act.wrong.eq(wrong),
            *(act[name].eq(sound & (header.kind == kind)) for name, kind in kinds_of(system).items()),
            act.finishing.eq(takes["finish"]),
            act.repeating.eq(takes["repeat_hold"]),
            act.acking.eq(takes["ack_hold"]),
            act.cancelling.eq(takes["cancel"]),
            act.dumping.eq(takes.get("dump", 0)),
            act.source.eq(source),
            act.slot.eq(slot),
            act.generation.eq(generation),
            act.incarnation.eq(incarnation),
            act["try"].eq(echo),
            *(act[name].eq(header[name]) for name in ("kind", "destination", "peer_incarnation", "length", "class")),
            act.for_us.eq(header.peer_incarnation == self.incarnation),
            act.ours.eq(header.incarnation == self.incarnation),
            act.set.eq(self.set),
            act.way.eq(hold.way),
            act.tries.eq(self.repeat_hold.payload.token.tries),
            act.ack_tries.eq(hold.tries),
            act.status.eq(self.finish.payload.status),
            act.cause.eq(self.finish.payload.cause),
            act.repeat_rung.eq(self.repeat_hold.payload.next_rung),
            act.rung.eq(rung),
            act.delay.eq(delay),
        ]
        if system.ni.reject:
            only = 1 << CHECKS.index(Drop.INCARNATION)
            m.d.sync += act.stale.eq(message & (header.kind == Kind.SEND) & (wrong == only))
        return m
