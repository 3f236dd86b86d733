"""Hostile neighbours: worms no transmitter would send, and a host and a network that torment one NI."""

import random
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from lethe.spec import trace
from lethe.spec.config import System
from lethe.spec.events import LANE_ACCEPT, LANE_RX, LANE_TX, Cause, Event, Kind
from lethe.spec.services.relay import MODE
from lethe.spec.wire import CRC16, KIND_BITS, Wire, unpack_uid
from lethe_sim.golden.blocks import Flit

GAP = Flit()
_BITS = trace.fields(tuple((name, 1) for name in trace.STIMULUS_BITS))
_SET = trace.fields(trace.STIMULUS_SET)
_RECORD, _LIMITS = trace.fields(trace.STIMULUS_RECORD), trace.fields(trace.STIMULUS_LIMITS)


def flits(words: list[int]) -> list[Flit]:
    """A worm with these data words."""
    return [Flit(1, int(i == 0), int(i == len(words) - 1), word) for i, word in enumerate(words)]


def spoiled(chance: random.Random, form: Wire, worm: list[Flit]) -> list[Flit]:
    """The worm with one thing wrong: cut, stretched, torn, without its ends, or with a head in its middle."""
    at = chance.randrange(len(worm))

    def junk() -> Flit:
        return Flit(1, 0, 0, chance.getrandbits(form.flit_bits))

    match chance.randrange(9):
        case 0:  # one bit is wrong
            worm[at] = worm[at]._replace(data=worm[at].data ^ 1 << chance.randrange(form.flit_bits))
        case 1:  # cut, with a proper end
            worm = [*worm[:at], worm[at]._replace(last=1)]
        case 2:  # cut by a gap
            worm = [*worm[: max(1, at)], GAP] if worm[max(1, at) - 1].last == 0 else [worm[0]._replace(last=0), GAP]
        case 3:  # a gap within
            worm = [*worm[:at], GAP, *worm[at:]]
        case 4:  # no end
            worm[-1] = worm[-1]._replace(last=0)
        case 5:  # no beginning
            worm[0] = worm[0]._replace(first=0)
        case 6:  # a head in the middle
            worm[at] = worm[at]._replace(first=1)
        case 7:  # too long by a few flits, or far too long
            more = max(0, form.max_flits - len(worm)) + chance.randrange(-1, 4)
            worm = [*worm[:-1], *(junk() for _ in range(more)), worm[-1]._replace(first=0)]
            if worm[0].first == 0:
                worm[0] = worm[0]._replace(first=1)
        case _:  # flits of nothing
            worm = [Flit(1, chance.getrandbits(1), chance.getrandbits(1), junk().data) for _ in range(1 + at)]
    return worm


def worms(chance: random.Random, form: Wire, nodes: int) -> Iterator[Flit]:
    """What one input of a router hears: heads to any node or none, in bursts and pauses, a third of them spoiled."""
    busy, hot = 0.5, 0
    while True:
        if chance.random() < 0.1:
            busy, hot = chance.choice((0.1, 0.5, 0.9, 1.0)), chance.randrange(nodes)
        if chance.random() > busy:
            yield from [GAP] * chance.randrange(1, 8)
        to = chance.choice((hot, chance.randrange(nodes), chance.randrange(nodes), chance.getrandbits(form.node_bits)))
        length = chance.choice((1, 1, 2, 3, chance.randrange(1, form.max_flits + 1), form.max_flits))
        words = [chance.getrandbits(form.flit_bits) for _ in range(length)]
        words[0] = words[0] & ~(((1 << form.node_bits) - 1) << KIND_BITS) | to << KIND_BITS
        worm = flits(words)
        yield from spoiled(chance, form, worm) if chance.random() < 0.33 else worm


def crowds(chance: random.Random, form: Wire, nodes: int, ports: int) -> Iterator[list[Flit] | None]:
    """Now and then, heads of one flit at some inputs of a router, all for one node; every number of inputs in turn.

    What passed before is torn by the first of them, so that the next find all outputs free.
    """
    sizes: list[int] = []
    while True:
        yield from [None] * chance.randrange(10, 50)
        sizes = sizes or chance.sample(range(1, ports + 1), ports)
        to = chance.randrange(nodes) << KIND_BITS
        crowd = set(chance.sample(range(ports), sizes.pop()))
        for _ in range(3):
            word = chance.getrandbits(form.flit_bits) & ~(((1 << form.node_bits) - 1) << KIND_BITS) | to
            yield [flits([word])[0] if port in crowd else GAP for port in range(ports)]


class Network:
    """What an NI hears on ``link_i``: answers to what it said, new and old messages, and rubbish.

    It knows the NI only by its trace words (`hear`), and the messages it sent itself.  A ``patient`` one answers
    nothing and forgets nothing: after a first Send there are only copies of it, and others for which the table has no
    way.
    """

    def __init__(self, chance: random.Random, system: System, node: int, *, patient: bool = False):
        self.chance, self.system, self.form, self.node = chance, system, system.format, node
        self._patient = patient
        self._fields = self.form.send
        self.incarnation = 1
        self._pending: deque[Flit] = deque()
        self._sent: deque[dict[str, int]] = deque(maxlen=4)  # identities of the NI's own datagrams, some too early
        self._received: deque[dict[str, int]] = deque(maxlen=3)  # identities of datagrams sent to it
        self._busy, self._stuck, self._acks = 0.5, False, 5
        self._beside = beside(chance)

    def hear(self, words: list[int]) -> None:
        """One cycle's trace words."""
        sent, accepted = trace.at_lane(words, LANE_TX), trace.at_lane(words, LANE_ACCEPT)
        if trace.EVENT.of(sent[0]) in (Event.SEND, Event.BE):
            self._sent.append(self._identity(*sent))
        elif accepted[0] and self.chance.random() < 0.6:  # not sent yet
            self._sent.append(self._identity(*accepted))

    def _identity(self, word: int, uid: int) -> dict[str, int]:
        """What an Ack says of the datagram of an event."""
        _, incarnation, slot, generation = unpack_uid(uid)
        peer = trace.PEER.of(word) & (1 << self.form.node_bits) - 1  # a record may be for any number
        return {"source": peer, "slot": slot, "generation": generation, "incarnation": incarnation}

    def next(self) -> Flit:
        """The flit of the next cycle."""
        if not self._pending:
            chance = self.chance
            if chance.random() < 0.05:
                self._busy = chance.choice((0.05, 0.3, 0.9, 1.0))
            if chance.random() < self._busy:
                count = chance.choice((1, 1, 1, 2, 4, 8))
                self._stuck = chance.random() < 0.5  # all of them are about one datagram
                for _ in range(count):
                    self._pending.extend(self._worm())
            else:
                self._pending.extend([GAP] * chance.randrange(1, 12))
        return self._pending.popleft() if self._pending else GAP

    def _worm(self) -> list[Flit]:
        chance, form = self.chance, self.form
        fields = self._message()
        for field in self._fields:
            if chance.random() < 0.008 and not self._patient:
                fields[field.name] = chance.getrandbits(field.width)
        if form.one_flit_control and chance.random() < 0.03:
            fields["kind"] = chance.choice((Kind.SEND, Kind.BE))
            return flits([self._one_flit(fields)])
        length = fields["length"]
        if chance.random() < 0.03:
            length = chance.randrange(form.mtu + 1)
        worm = flits(form.flits(fields, chance.randbytes(length)))
        return spoiled(chance, form, worm) if chance.random() < 0.12 else worm

    def _one_flit(self, fields: dict[str, int]) -> int:
        """A control message of one flit with a good CRC, whatever its kind."""
        form = self.form
        body = form.flit_bits - 16
        header = sum(fields[field.name] << field.offset for field in form.common)
        return header | CRC16.of(header, body) << body

    def _message(self) -> dict[str, int]:
        """All fields of the next message, still in order."""
        chance, form = self.chance, self.form
        fields = {field.name: 0 for field in self._fields}
        fields |= {"destination": self.node, "try": chance.getrandbits(form.try_bits)}
        if form.path_bits:
            fields["path"] = chance.getrandbits(form.path_bits)
        if chance.random() < 0.02:
            self._acks = chance.choice((0, 1, 5, 5, 20))
        if self._rejects():
            answered = self._beside.choice(self._sent)
            return fields | answered | {"kind": Kind.REJECT, "peer_incarnation": self._beside.randrange(1, 3)}
        kinds = (Kind.SEND,) * 6 + (Kind.ACK,) * self._acks + (Kind.FORGET,) * 5 + (Kind.BE,) * 2
        fields["kind"] = Kind.SEND if self._patient else chance.choice(kinds)
        if fields["kind"] == Kind.ACK and self._sent:
            fields |= self._one_of(self._sent)
            fields["peer_incarnation"] = chance.randrange(1, 3)
            if chance.random() < 0.15:  # of a node that has nothing to acknowledge
                fields["source"] = chance.choice([n for n in range(self.system.nodes) if n != self.node])
            return fields
        if fields["kind"] == Kind.FORGET and self._received and chance.random() < 0.9:
            return fields | self._one_of(self._received) | {"peer_incarnation": self.incarnation}
        if fields["kind"] == Kind.SEND and self._received and chance.random() < (0.9 if self._stuck else 0.3):
            fields |= self._one_of(self._received)
        elif self._patient and self._received:
            first = self._received[0]
            fields |= first | {"slot": first["slot"] ^ 1}
        else:
            identity = {
                "source": chance.choice([n for n in range(self.system.nodes) if n != self.node]),
                "slot": chance.choice(
                    (chance.randrange(min(4, 1 << form.slot_bits)), chance.getrandbits(form.slot_bits))
                ),
                "generation": chance.randrange(min(4, 1 << form.generation_bits)),
                "incarnation": chance.randrange(1, 3),
            }
            fields |= identity
            if fields["kind"] == Kind.SEND and not (self._patient and self._received):
                self._received.append(identity)
        fields["peer_incarnation"] = chance.choice((0, 0, self.incarnation))
        if self.system.ni.reject and self._beside.random() < 0.05:
            fields["peer_incarnation"] ^= 1
        fields["length"] = chance.choice((0, chance.randrange(form.mtu + 1), form.mtu))
        top = (1 << form.class_bits) - 1
        fields["class"] = chance.choice((chance.getrandbits(form.class_bits), top, top - chance.randrange(2)))
        fields["mode"] = int(fields["kind"] == Kind.BE)
        return fields

    def _rejects(self) -> bool:
        """Whether the next message is a REJECT, where the NI knows that kind."""
        return bool(self.system.ni.reject and self._sent and self._beside.random() < 0.08)

    def _one_of(self, identities: deque[dict[str, int]]) -> dict[str, int]:
        return identities[-1] if self._stuck else self.chance.choice(identities)


def beside(chance: random.Random) -> random.Random:
    """A generator of its own for what an option adds, so that the draws of ``chance`` stay as they are without it."""
    return random.Random(repr(chance.getstate()))


def services_words(system: System, words: list[int]) -> tuple[int, bool]:
    """What stimulus words say of the ports of services: `refusal`, and whether a sweep is offered."""
    layout, port = system.layout, system.top_port
    refusal = words[layout.stimulus_refusal] if port.acceptance else 0
    return refusal & 3, bool(port.sweep and words[layout.stimulus_sweep] & 1)


class Minds:
    """The three offers between which a fickle host changes from cycle to cycle; now and then it draws a new one.

    A stream must keep an offer until the handshake.  A unit that looks at an offer twice finds another one here, or
    finds the first again behind another.
    """

    def __init__(self, chance: random.Random, draw: Callable[[], Any]):
        self._chance, self._draw = chance, draw
        self._all = [draw() for _ in range(3)]

    def next(self, now: Any) -> Any:
        """The offer of the next cycle, which follows the offer ``now``."""
        chance = self._chance
        if chance.random() < 0.05:
            self._all[chance.randrange(3)] = self._draw()
        return chance.choice(self._all) if chance.random() < 0.4 else now


class ControlOffers:
    """What a hostile host offers on `send_control`: records good and bad, their beats in fits."""

    def __init__(self, chance: random.Random, system: System, node: int, *, fickle: bool = False):
        self._chance, self._system, self._node = chance, system, node
        self._minds = Minds(chance, self._draw) if fickle else None
        self._record: list[int] | None = None
        self._beats, self._eager = 0, 0.5
        self.deadline = 0  # of the record that was taken last

    def next(self) -> tuple[dict[str, bool], list[int]]:
        """The two valids and the four words of the next cycle."""
        chance = self._chance
        if self._record is None or chance.random() < 0.01:
            self._record = self._draw()
        if self._minds:
            self._record = self._minds.next(self._record)
        if chance.random() < 0.01:
            self._eager = chance.choice((0.0, 0.05, 0.3, 1.0))
        data = chance.getrandbits(self._system.format.flit_bits)
        valid = {
            "send_control.valid": chance.random() < (0.1 if self._beats else self._eager),
            "send_control_data.valid": chance.random() < (0.8 if self._beats else 0.1),
        }
        return valid, [*self._record, data & trace.MASK64, data >> 64]

    def hear(self, offered: list[int], ready: dict[str, int]) -> None:
        """What became of it; ``ready`` has the NI's flags by name."""
        offers = {name: field.of(offered[trace.STIMULUS_FLAGS]) for name, field in _BITS.items()}
        if self._beats:
            self._beats -= offers["send_control_data.valid"] & ready["send_control_data.ready"]
        elif offers["send_control.valid"] & ready["send_control.ready"]:
            length = _RECORD["length"].of(offered[trace.CONTROL_RECORD_WORD])
            self._beats = self._system.format.payload_flits(length)
            self.deadline = _LIMITS["deadline"].of(offered[trace.CONTROL_LIMITS_WORD])
            self._record = None

    def reset(self) -> None:
        """The NI is in reset."""
        self._beats = 0

    def _draw(self) -> list[int]:
        chance, system = self._chance, self._system
        top, mtu = (1 << system.format.class_bits) - 1, system.format.mtu
        record = {
            "destination": chance.choice((*range(system.nodes), chance.getrandbits(16))),
            "class": chance.choice((top, top, top - chance.randrange(3) & top, chance.getrandbits(8))),
            "mode": chance.choice((0, 0, 0, 0, 1, chance.getrandbits(8))),
            "length": chance.choice((0, 0, 1, chance.randrange(mtu + 1), mtu, mtu + chance.randrange(1, 9))),
            "tag": chance.getrandbits(16),
        }
        limits = {
            "deadline": chance.choice((0, 0, chance.randrange(1, 300), chance.getrandbits(32))),
            "retry_limit": chance.choice((0, 1, 2, 255)),
            "expect": chance.choice((0, 0, 1, chance.getrandbits(8))),
            "path": chance.getrandbits(6) if system.format.path_bits else 0,
        }
        return [_packed(record, trace.STIMULUS_RECORD), _packed(limits, trace.STIMULUS_LIMITS)]


class PortOffers:
    """What a hostile host says to flow: ports of its records, which ports it reads, what it sets; notices in fits."""

    def __init__(self, chance: random.Random, system: System, *, fickle: bool = False):
        self._chance, self._ports = chance, system.flow.ports
        self._mtu, self._limit = system.flow_mtu, system.flow_receive_limit
        self._record = self._named()
        self._minds = (Minds(chance, self._named), Minds(chance, self._drawn)) if fickle else ()
        self._read, self._setting, self._stalled = (1 << self._ports) - 1, [0, 0, 0], 0

    def next(self) -> list[int]:
        """The two words of the next cycle."""
        chance = self._chance
        if chance.random() < 0.02:
            self._record = self._named()
        if chance.random() < 0.004:
            everything = (1 << self._ports) - 1
            self._read = chance.choice((0, everything, everything, chance.getrandbits(self._ports)))
        if not self._setting[0] and chance.random() < 0.004:
            self._setting = self._drawn()
        if self._minds:
            self._record = self._minds[0].next(self._record)
            if self._setting[0]:
                self._setting = self._minds[1].next(self._setting)
        if self._stalled == 0 and chance.random() < 0.005:
            self._stalled = chance.choice((1, 10, 200))
        self._stalled = max(0, self._stalled - 1)
        valid, code, index, value = (1, *self._setting[1:]) if self._setting[0] else (0, 0, 0, 0)
        given = {
            "valid": valid, "code": code, "index": index, "value": value, "notice_stall": int(self._stalled > 0)
        }  # fmt: skip
        return [
            _packed(self._record | {"receive_mask": self._read}, trace.STIMULUS_PORTS),
            _packed(given, trace.STIMULUS_SET),
        ]

    def hear(self, offered: int, ready: dict[str, int]) -> None:
        """What became of what was set; ``offered`` is the second word."""
        if _SET["valid"].of(offered) & ready["set.ready"]:
            self._setting = [0, 0, 0, 0]

    def _named(self) -> dict[str, int]:
        chance, ports = self._chance, self._ports
        sport, dport = (
            chance.choice((*[chance.randrange(ports)] * 6, chance.randrange(ports) + ports, chance.getrandbits(16)))
            for _ in range(2)
        )
        return {"sport": sport, "dport": dport, "flags": chance.choice((3, 3, 0x83, chance.getrandbits(8)))}

    def _drawn(self) -> list[int]:
        chance, ports = self._chance, self._ports
        code, index = chance.choice((0, 1, 1, 1, 2, 3)), chance.randrange(ports)
        if chance.random() < 0.05:
            index = chance.getrandbits(4)
        if code < 2:
            return [1, code, index, chance.choice((index, index, index + ports, chance.getrandbits(16)))]
        most = chance.choice((0, self._mtu, self._limit, 4 * self._limit, 1 << 19))
        return [1, code, index, min(most // 16, 0xFFFF)]


class TreeOffers:
    """What a hostile host tells relay: routes to anywhere, by ways of its own, and deaths of anybody or nobody.

    It begins when the tree player has ended, whose only words must be those of the first tree, and writes all routes
    once: what was never written is unknown.
    """

    def __init__(self, chance: random.Random, system: System, node: int, *, fickle: bool = False):
        self._chance, self._nodes, self._node = chance, system.nodes, node
        self._fickle = fickle
        self._pending: deque[dict[str, int]] = deque()
        self._first = self._unplayed = len(system.relay_words(node))
        self._written = False

    def next(self) -> list[int]:
        """The word of the next cycle."""
        if not self._unplayed and not self._pending and self._chance.random() < 0.002:
            self._pending.extend(self._told())
        nothing = {name: 0 for name, _ in trace.STIMULUS_TREE}
        # (No word is offered in place of another: what was never written is unknown.)
        withdraws = self._fickle and not self._unplayed and self._chance.random() < 0.3
        return [_packed(nothing | (self._pending[0] if self._pending and not withdraws else {}), trace.STIMULUS_TREE)]

    def hear(self, ready: dict[str, int]) -> None:
        """What became of it."""
        if not ready["tree.ready"]:
            return
        if self._unplayed:
            self._unplayed -= 1
        elif self._pending.popleft().get("code"):
            self._written = True

    def reset(self) -> None:
        """The node is in reset."""
        self._unplayed = self._first
        self._pending.clear()

    def _told(self) -> list[dict[str, int]]:
        chance, nodes = self._chance, range(self._nodes)
        routes = [self._route(target) for target in nodes if not self._written or chance.random() < 0.8]
        died = chance.choice((*[self._node] * 20, *nodes, chance.getrandbits(16)))
        if not self._written:
            died = self._node
        notice = {"code": 1, "target": died, "depth": chance.randrange(5), "promoted": int(chance.random() < 0.2)}
        return [{"valid": 1} | word for word in (*routes, notice)]

    def _route(self, target: int) -> dict[str, int]:
        chance, nodes = self._chance, range(self._nodes)
        hop = chance.choice((*[target] * 8, self._node, *nodes, chance.getrandbits(16)))
        way = chance.choice((0, 1, 2, 3, chance.getrandbits(4)))
        stray = self._written and chance.random() < 0.05
        return {"target": chance.getrandbits(16) if stray else target, "hop": hop, "way": way}


class HostileHost:
    """The stimulus words of section 8: sends good and bad, cancels, and episodes of everything that can be held.

    It learns after how many cycles datagrams are repeated, and sets deadlines to just that.  Now and then it holds a
    repeat back by disabling the link, and meanwhile goes through the slot's generations with best effort until the one
    of the repeat comes again.  A ``patient`` host only sends, and never gives up before 255 tries.  With ``stalls`` it
    takes what it is given in fits, each stream in its own.  A ``fickle`` one changes between the offers of its `Minds`.

    ``reached`` has what its last `hear` found beyond the events.
    """

    def __init__(
        self, chance: random.Random, system: System, node: int, *, patient: bool = False, stalls: bool = False,
        fickle: bool = False,
    ):  # fmt: skip
        self.chance, self.system, self.node = chance, system, node
        self._patient = patient
        self._beside = beside(chance)
        self._control = ControlOffers(self._beside, system, node, fickle=fickle) if system.top_port.control else None
        ports = random.Random(f"{self._beside.random()}") if system.flow.ports else None
        self._ports = PortOffers(ports, system, fickle=fickle) if ports else None
        relay = random.Random(f"{self._beside.random()}") if system.relay.slots else None
        self._tree, self._relay = (TreeOffers(relay, system, node, fickle=fickle), relay) if relay else (None, None)
        self._stalled = [0] * (1 + 2 * len(system.top_port.delivers)) if stalls else []
        self._record: list[int] | None = None
        self._refuses, self._sweeps, self._swept = 0.0, 0, 0
        self._beats = 0
        self._accepted: deque[tuple[int, int]] = deque(maxlen=3)
        self._held = dict.fromkeys(("quiesce", "link_disable", "deliver_stall"), 0)
        self._eager, self._favourite = 0.5, {}
        self._time = 0
        self._born: dict[tuple[int, int], tuple[int, int]] = {}  # when a datagram was accepted, and its deadline
        self._deadline = 0
        self._repeated: deque[int] = deque([100], maxlen=6)  # for the first time, after so many cycles
        self._recurring: tuple[int, int] | None = None  # slot and generation of the repeat that is held back
        self._now: tuple[int, int] | None = None  # what that slot holds now
        self._minds = Minds(chance, self._draw) if fickle else None
        self.reached: list[str] = []

    def next(self) -> list[int]:
        """The words of the next cycle."""
        chance = self.chance
        if self._record is None or chance.random() < 0.002:
            self._record = self._draw()
        if self._minds and not self._recurring:
            self._record = self._minds.next(self._record)
        if chance.random() < 0.01:
            self._eager = chance.choice((0.02, 0.2, 1.0))
        bits = {"send.valid": self._beats == 0 and chance.random() < self._eager}
        bits["send_data.valid"] = chance.random() < (0.8 if self._beats else 0.1)
        bits["cancel.valid"] = not self._patient and chance.random() < 0.03
        for name, left in self._held.items():
            if left == 0 and not self._patient and chance.random() < 0.003:
                left = chance.choice((1, 10, 60))
            bits[name] = left > 0
            self._held[name] = max(0, left - 1)
        if self._accepted and chance.random() < 0.7:
            slot, generation = chance.choice(self._accepted)
        else:
            slot = chance.getrandbits(chance.choice((1, 2, 4, 16)))
            generation = chance.getrandbits(self.system.format.generation_bits)
        if self.system.services and self._beside.random() < 0.3:  # one of a service, or of nobody
            slot = self._beside.randrange(self.system.ni.slots, self.system.top_port.slots + 2)
        if self._recurring:
            bits["quiesce"], bits["send.valid"] = False, self._beats == 0
            if self._now:
                (slot, generation), bits["cancel.valid"] = self._now, True
            if not self._held["link_disable"]:
                self._recurring = None
        data = chance.getrandbits(self.system.format.flit_bits)
        cancel = _packed({"slot": slot, "generation": generation}, trace.STIMULUS_CANCEL)
        words = [*self._record, data & trace.MASK64, data >> 64, cancel]
        if self._control:
            valid, control = self._control.next()
            bits |= valid
            words += control
        port = self.system.top_port
        if port.merge_bits:
            words += [self._beside.getrandbits(64), self._beside.getrandbits(64)]
        if port.acceptance:
            words.append(self._refusal())
        if port.sweep:
            words.append(self._sweep())
        if self._ports:
            words += self._ports.next()
        if self._tree:
            words += self._tree.next()
        completion, streams = self._stalls()
        bits["completion_stall"] = completion
        word = sum(bits.get(name, False) << i for i, name in enumerate(trace.STIMULUS_BITS))
        return [word | streams << trace.STREAMS_STALL.shift, *words]

    def _refusal(self) -> int:
        """Nothing is refused, or for a while all, or now and then something."""
        chance = self._beside
        if chance.random() < 0.01:
            self._refuses = chance.choice((0.0, 0.0, 0.2, 1.0))
        return chance.randrange(1, 4) if chance.random() < self._refuses else 0

    def _sweep(self) -> int:
        """A source that keeps being offered for a while, mostly long enough, of the nodes or none."""
        chance = self._beside
        if self._sweeps == 0 and chance.random() < 0.01:
            self._sweeps = chance.choice((1, 6, 40, 5 * (self.system.ni.sets * self.system.ni.ways + 2)))
            self._swept = chance.choice((*range(self.system.nodes), chance.getrandbits(16)))
        self._sweeps = max(0, self._sweeps - 1)
        valid = self._sweeps > 0 or chance.random() < 0.002
        return _packed({"valid": int(valid), "source": self._swept}, trace.STIMULUS_SWEEP)

    def _stalls(self) -> tuple[bool, int]:
        """Whether completions are stalled, and which deliver streams."""
        chance = self._beside
        for stream, left in enumerate(self._stalled):
            if left == 0 and chance.random() < 0.005:
                left = chance.choice((1, 8, 100))
            self._stalled[stream] = max(0, left - 1)
        stalled = [left > 0 for left in self._stalled]
        return any(stalled[:1]), sum(bit << i for i, bit in enumerate(stalled[1:]))

    def hear(self, offered: list[int], words: list[int], reset: bool) -> None:
        """What became of the words offered: an NI's trace words, and behind them those of its services."""
        self.reached = []
        offers = {name: field.of(offered[trace.STIMULUS_FLAGS]) for name, field in _BITS.items()}
        self._time += not offers["link_disable"]
        if reset:
            self._beats, self._recurring = 0, None
            self._born.clear()
            if self._control:
                self._control.reset()
            if self._tree:
                self._tree.reset()
            return
        ready = self._flags(words)
        if self._beats:
            self._beats -= offers["send_data.valid"] & ready["send_data.ready"]
        elif offers["send.valid"] & ready["send.ready"]:
            length = _RECORD["length"].of(offered[trace.STIMULUS_RECORD_WORD])
            self._beats = self.system.format.payload_flits(length)
            self._deadline = _LIMITS["deadline"].of(offered[trace.STIMULUS_LIMITS_WORD])
            self._record = None
        if self._control:
            self._control.hear(offered, ready)
        if self._ports:
            self._ports.hear(offered[self.system.layout.stimulus_ports + 1], ready)
        if self._tree:
            self._tree.hear(ready)
        accepted, uid = trace.at_lane(words, LANE_ACCEPT)
        if accepted:
            _, _, slot, generation = unpack_uid(uid)
            self._accept(slot, generation)
        acted, uid = trace.at_lane(words, LANE_RX)
        if acted:
            self._follow(acted, uid)

    def _flags(self, words: list[int]) -> dict[str, int]:
        """The flags by name; of two units that show one, the higher's, as it is nearer to the host."""
        found = {name: words[trace.NI_FLAGS] >> bit & 1 for bit, name in enumerate(trace.NI_FLAG_BITS)}
        first = self.system.layout.ni_words
        for service in self.system.services:
            flags = words[first + service.flags]
            found |= {name: flags >> bit & 1 for bit, name in enumerate(service.flag_bits)}
            first += service.words
        return found

    def _accept(self, slot: int, generation: int) -> None:
        self._accepted.append((slot, generation))
        control = self._control if self._is_control(slot) else None
        self._born[slot, generation] = self._time, control.deadline if control else self._deadline
        if self._recurring and slot == self._recurring[0]:
            self._now = (slot, generation)
            if self._now == self._recurring:  # it has come again: let the repeat go
                self._recurring, self._held["link_disable"] = None, 0

    def _is_control(self, slot: int) -> bool:
        return slot >= self.system.ni.slots - self.system.ni.control_slots

    def _follow(self, word: int, uid: int) -> None:
        """An event of the lane on which datagrams are repeated and end."""
        _, _, slot, generation = unpack_uid(uid)
        event, detail = trace.EVENT.of(word), trace.DETAIL.of(word)
        born, deadline = self._born.get((slot, generation), (None, 0))
        if born is None:
            return
        if event == Event.REPEAT:
            if detail == 1:
                self._repeated.append(self._time - born)
            if self._patient or self._is_control(slot):
                return
            if not self._recurring and self.chance.random() < 0.1:
                self._recurring = self._now = slot, generation
                self._held["link_disable"], self._record = 120, None
        elif event == Event.GIVE_UP:
            if detail == Cause.DEADLINE and self._time - born == deadline:
                self.reached.append("DEADLINE TO THE CYCLE")
            if self._now == (slot, generation):
                self._now = None

    def _draw(self) -> list[int]:
        chance, mtu = self.chance, self.system.format.mtu
        record = {
            "destination": chance.choice([n for n in range(self.system.nodes) if n != self.node]),
            "class": chance.choice((0, chance.getrandbits(8), 254, 255)),
            "mode": int(chance.random() < 0.2),
            "length": chance.choice((0, 1, chance.randrange(mtu + 1), mtu)),
            "tag": chance.getrandbits(16),
        }
        if chance.random() < 0.03:  # for a while, many short ones to one neighbour
            peers = [n for n in range(self.system.nodes) if n != self.node]
            few = {"destination": chance.choice(peers), "length": chance.choice((0, 1))}
            self._favourite = chance.choice(({}, few, few | {"class": 255}))
        record |= self._favourite
        if self.system.services and self._beside.random() < 0.3:
            record["destination"] = self.node
        if chance.random() < 0.1:
            record["destination"] = chance.choice((self.node, chance.getrandbits(4), chance.getrandbits(16)))
        if chance.random() < 0.05:
            record["mode"] = chance.getrandbits(8)
        if chance.random() < 0.05:
            record["length"] = mtu + chance.randrange(1, 40)
        if self._relay and self._relay.random() < 0.7:
            record |= {
                "mode": MODE,
                "class": record["class"] & 3,
                "destination": self._relay.randrange(self.system.nodes),
            }
            record["length"] = self._relay.choice((0, self._relay.randrange(mtu - 15), mtu))
        if self._recurring:
            peers = [n for n in range(self.system.nodes) if n != self.node]
            record |= {"destination": chance.choice(peers), "mode": 1, "length": 0}
        learned = chance.choice((min(self._repeated), chance.choice(self._repeated)))
        limits = {
            "deadline": chance.choice((0, 0, *[learned] * 4, chance.randrange(1, 300), chance.getrandbits(32))),
            "retry_limit": chance.choice((0, 1, 2, 255)),
            "expect": chance.choice((0, 0, 1, chance.getrandbits(8))),
            "path": chance.getrandbits(6) if self.system.format.path_bits else 0,
        }
        if self._patient:
            peer = chance.choice([n for n in range(self.system.nodes) if n != self.node])
            record |= {"destination": peer, "mode": 0, "length": min(mtu, record["length"])}
            limits |= {"deadline": 0, "retry_limit": chance.choice((0, 255))}
        return [_packed(record, trace.STIMULUS_RECORD), _packed(limits, trace.STIMULUS_LIMITS)]


class Takes(NamedTuple):
    """What a host's side of an NI shows in one cycle, beside the stimulus words.

    ``deliver`` has (record, data) of each deliver FIFO.
    """

    completion: bool
    deliver: list[tuple[int, int]]
    dump: int
    index: int


class Taker:
    """A host that takes completions, records and beats each in its own fits, and asks for the state."""

    def __init__(self, chance: random.Random, system: System):
        self._chance, ni = chance, system.ni
        self._index_bits = (max(ni.slots, ni.sets) - 1).bit_length()
        self._eager = [1.0] * (3 + 2 * ni.control_classes)

    def next(self) -> Takes:
        """The ports of the next cycle."""
        chance, eager = self._chance, self._eager
        if chance.random() < 0.03:
            eager[chance.randrange(len(eager))] = chance.choice((0.0, 0.1, 0.5, 1.0, 1.0, 1.0))
        ready = [int(chance.random() < share) for share in eager]
        return Takes(
            bool(ready[0]),
            list(zip(ready[1::2], ready[2::2], strict=True)),
            int(chance.random() < 0.3),
            chance.getrandbits(self._index_bits),
        )


def _packed(values: dict[str, int], table: tuple[tuple[str, int], ...]) -> int:
    return sum(values[name] << field.shift for name, field in trace.fields(table).items())
