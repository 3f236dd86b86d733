"""Single RTL blocks beside their golden models: links, routers, queues, ladders, NIs, under hostile input.

Blocks of one group are one design with one wide input and one wide output, so that a cycle costs the
simulator's interface two calls.
"""

import abc
import itertools
import random
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from amaranth.hdl import Cat, Module, Mux, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from lethe.fabric.fault import LinkFault
from lethe.fabric.router import Router
from lethe.fabric.routes import Rule
from lethe.host import deliver_streams
from lethe.lib.queue import Queue
from lethe.ni.ladder import Ladder
from lethe.ni.layouts import Records
from lethe.ni.ni import Ni
from lethe.spec import stages, trace
from lethe.spec.config import System
from lethe.spec.events import (
    CAUSE_BITS,
    COUNTED,
    LANE_ACCEPT,
    LANE_COMPLETE,
    LANE_RX,
    LANE_TX,
    ROUTER_COUNTED,
    Cause,
    Counter,
    Drop,
    Event,
    Kind,
    RouterCounter,
    Status,
)
from lethe.spec.pin import salt_for
from lethe.spec.ports import HostPort
from lethe.spec.ports import records as record_fields
from lethe.spec.random import UNIT_LINK_FLIP, UNIT_LINK_LOSS, UNIT_NI, UNIT_ROUTER, seed_for
from lethe.spec.sections.router import SUMMED
from lethe.spec.wire import CRC16, KIND_BITS, unpack_uid
from lethe.statistics import LATENCY
from lethe.traffic.script import Script
from lethe_sim.golden import blocks as golden
from lethe_sim.golden.blocks import Flit
from lethe_sim.golden.ni import ladder as golden_ladder
from lethe_sim.golden.view import Dumped, Ports

from . import divergence
from .hostile import GAP, HostileHost, Network, Taker, crowds, services_words, worms

#: Tries are counted so far, and no further.
MOST_TRIES = 255
KIND_MASK = (1 << KIND_BITS) - 1
_COUNTERS = {(int(event), int(drop)): counter for counter, (event, drop) in COUNTED.items()}


@dataclass(frozen=True)
class Span:
    """A slice of a block's output: what it is, its bits, and how a person would say it."""

    label: str
    bits: int
    say: Callable[[int], str] = hex


def pack(*fields: tuple[int, int]) -> int:
    """(value, bits) pairs as one number, the first lowest."""
    word, at = 0, 0
    for value, bits in fields:
        assert value >> bits == 0
        word |= value << at
        at += bits
    return word


def flit_field(flit: golden.Flit, bits: int) -> tuple[int, int]:
    """A flit as `link.Flit` lays it out: valid, first, last, ``bits`` of data."""
    return flit.valid | flit.first << 1 | flit.last << 2 | flit.data << 3, 3 + bits


def _record(values: Sequence[int] | None, widths: list[int]) -> list[tuple[int, int]]:
    """The fields of a record, all 0 if there is none."""
    return list(zip(values or [0] * len(widths), widths, strict=True))


def slices(word: Value, *widths: int) -> list[Value]:
    found, at = [], 0
    for width in widths:
        found.append(word[at : at + width])
        at += width
    return found


class Block(abc.ABC):
    """One RTL block and its model.

    ``inputs`` is the width of its input, ``outputs`` are the parts of its output, lowest first; ``reached`` names what
    the input of the cycle that was played last reaches beyond what its output shows.  A ``patient`` block is played
    without answers, ends and resets, if it is an NI.  The hosts of a ``fickle`` one change what they offer while it
    waits.
    """

    inputs: int
    outputs: tuple[Span, ...]
    reached: Sequence[str] = ()
    patient: bool = False
    fickle: bool = False

    @cached_property
    def output_bits(self) -> int:
        return sum(part.bits for part in self.outputs)

    @abc.abstractmethod
    def build(self, m: Module, name: str, i: Value, o: Value) -> None:
        """Put the RTL into ``m`` as submodule ``name``, between ``i`` and ``o``."""

    @abc.abstractmethod
    def play(self, seed: int) -> Iterator[tuple[int, int]]:
        """(input, expected output) of every cycle from system reset on."""

    def seen(self, output: int) -> list[str]:
        """What happened in a cycle, by name."""
        return []


class LinkBlock(Block):
    """The fault element of a link."""

    def __init__(self, system: System, *, mortal: bool = True):
        self._system, self._mortal = system, mortal
        self._bits = system.format.flit_bits
        self.inputs = 3 + self._bits + 1 + 64
        self.outputs = (Span("flit", 3 + self._bits), Span("event", 8))

    def build(self, m, name, i, o):
        system = self._system
        m.submodules[name] = link = LinkFault(
            system.format, system.loss_threshold, system.flip_threshold, mortal=self._mortal
        )
        flit, dead, loss, flip = slices(i, 3 + self._bits, 1, 32, 32)
        m.d.comb += [
            Value.cast(link.i).eq(flit),
            link.dead.eq(dead),
            link.loss_seed.eq(loss),
            link.flip_seed.eq(flip),
            o.eq(Cat(Value.cast(link.o), link.watch)),
        ]

    def play(self, seed):
        chance = random.Random(seed)
        system = self._system.replace(run={"seed": seed})
        model = golden.LinkFault(system, number=1)
        seeds = [(seed_for(seed, unit, 1), 32) for unit in (UNIT_LINK_LOSS, UNIT_LINK_FLIP)]
        heard = worms(chance, system.format, system.nodes)
        flit, dead = GAP, False  # generators have their seeds from cycle 1 on
        while True:
            passed, event = model.step(flit, dead)
            yield (
                pack(flit_field(flit, self._bits), (dead, 1), *seeds),
                pack(flit_field(passed, self._bits), (trace.EVENT.of(event), trace.EVENT.bits)),
            )
            flit = next(heard)
            if self._mortal and chance.random() < 0.05:
                dead = not dead

    def seen(self, output):
        event = output >> 3 + self._bits
        return [Event(event).name] if event else []


class RouterBlock(Block):
    """A router, its trace words and its counts."""

    def __init__(self, system: System, number: int):
        self._system, self._number = system, number
        self._rule = Rule.of(system.graph, number)
        self._bits, self._ports = system.format.flit_bits, system.graph.ports(number)
        self._lanes, self._queue = system.graph.lanes(number), system.router.queue or system.router.pool
        self._count_bits, self._pins = (
            Router.count_bits(self._rule),
            Router.pins(self._rule, self._queue, system.format, system.climbs_freely),
        )
        self.inputs = self._ports * (3 + self._bits) + self._rule.position_bits + 32 + 16 * self._pins
        base = system.layout.router_base(number)
        self.outputs = (
            *(Span(f"output {port}", 3 + self._bits) for port in range(self._ports)),
            *(Span(self._lane(base + lane), 64, self._say(base + lane)) for lane in range(self._lanes)),
            *(Span(f"count {counter.name}", self._count_bits, str) for counter in RouterCounter),
        )

    def _lane(self, index: int) -> str:
        return divergence.place(self._system.layout, index)[1]

    def _say(self, index: int) -> Callable[[int], str]:
        return lambda word: divergence.describe_word(self._system.layout, index, word)

    def build(self, m, name, i, o):
        m.submodules[name] = router = Router(self._system.format, self._rule, *Router.settings(self._system))
        *flits, position, seed, salt = slices(
            i, *[3 + self._bits] * self._ports, self._rule.position_bits, 32, 16 * self._pins
        )
        if self._pins:
            m.d.comb += router.salt.eq(salt)
        m.d.comb += [
            *(Value.cast(port).eq(flit) for port, flit in zip(router.i, flits, strict=True)),
            router.position.eq(position),
            router.seed.eq(seed),
            o.eq(Cat(*(Value.cast(port) for port in router.o), router.watch, router.counts)),
        ]

    def play(self, seed):
        system = self._system.replace(run={"seed": seed})
        model = golden.Router(system, self._number)
        constants = [
            (self._rule.position(self._number), self._rule.position_bits),
            (seed_for(seed, UNIT_ROUTER, self._number), 32),
            (salt_for(seed), 16) if self._pins else (0, 0),
        ]
        kinds = [ROUTER_COUNTED[counter] for counter in RouterCounter]  # the event of each counter
        heard = [worms(random.Random(f"{seed} {port}"), system.format, system.nodes) for port in range(self._ports)]
        crowd = crowds(random.Random(f"{seed} crowd"), system.format, system.nodes, self._ports)
        flits, fragments = [GAP] * self._ports, 0
        counted = deque([[0] * len(RouterCounter)] * (1 + SUMMED))  # what the RTL still has to count
        fragmented = deque([0] * self._system.layout.lag)
        late = deque([[0] * self._lanes] * self._system.layout.lag)  # words that the RTL still has to show
        while True:
            shown, decided = model.step(flits)
            late.append(decided)
            words = late.popleft()
            self.reached = self._contention(words)
            yield (
                pack(*(flit_field(flit, self._bits) for flit in flits), *constants),
                pack(
                    *(flit_field(flit, self._bits) for flit in shown),
                    *((word, 64) for word in words),
                    *((count, self._count_bits) for count in counted.popleft()),
                ),
            )
            events = [trace.EVENT.of(word) for word in words if word]
            counts = [events.count(event) for event in kinds] if events else [0] * len(kinds)
            fragmented.append(model.extra_fragments)
            extra = fragmented.popleft()
            counts[RouterCounter.FRAGMENT] += extra - fragments
            fragments = extra
            counted.append(counts)
            flits = next(crowd) or [next(port) for port in heard]

    def _contention(self, words: list[int]) -> list[str]:
        """How many heads asked for one output that was free, where only one passed."""
        events = [trace.EVENT.of(word) for word in words]
        if events.count(Event.FORWARD) != 1:
            return []
        return [f"{1 + events.count(Event.DISCARD_CONTENTION)} of {self._ports}"]

    def seen(self, output):
        words = output >> self._ports * (3 + self._bits)
        if not words & (1 << trace.WORD_BITS * self._lanes) - 1:
            return []
        codes = [trace.EVENT.of(words >> trace.WORD_BITS * lane) for lane in range(self._lanes)]
        return [Event(code).name for code in codes if code]


class QueueBlock(Block):
    """A queue of 20-bit entries."""

    def __init__(self, depth: int):
        self._depth, self._level_bits = depth, depth.bit_length()
        self.inputs = 22
        self.outputs = (
            Span("ready", 1), Span("valid", 1), Span("payload", 20), Span("level", self._level_bits, str),
            Span("empty", 1),
        )  # fmt: skip

    def build(self, m, name, i, o):
        m.submodules[name] = queue = Queue(20, self._depth)
        m.d.comb += [
            Cat(queue.i.valid, queue.o.ready, queue.i.payload).eq(i),
            o.eq(Cat(queue.i.ready, queue.o.valid, Mux(queue.o.valid, queue.o.payload, 0), queue.level, queue.empty)),
        ]

    def play(self, seed):
        chance = random.Random(seed)
        model, offers, takes = golden.Queue(self._depth), 0.5, 0.5
        while True:
            if chance.random() < 0.05:
                offers, takes = chance.choice((0.1, 0.5, 1.0)), chance.choice((0.1, 0.5, 1.0))
            offer, take, entry = chance.random() < offers, chance.random() < takes, chance.getrandbits(20)
            ready, valid = model.level < self._depth, model.output is not None
            output, level = model.step(entry if offer and ready else None, take and valid)
            yield (
                pack((offer, 1), (take, 1), (entry, 20)),
                pack(
                    (ready, 1), (valid, 1), (output or 0, 20), (level, self._level_bits), (not valid and not level, 1)
                ),
            )


class LadderBlock(Block):
    """A ladder, pushed to as the NI does: ``number`` 0 as for Sends, 1 as for Acks."""

    TOKEN_BITS = 24

    def __init__(self, system: System, number: int):
        self._system, self._number = system, number
        self._rung_bits = max(1, (system.rungs - 1).bit_length())
        self.inputs = 3 + self.TOKEN_BITS + self._rung_bits + 2 * system.time_bits
        self.outputs = (
            Span("room", 1), Span("hold.valid", 1), Span("hold", self.TOKEN_BITS), Span("next_rung", self._rung_bits)
        )  # fmt: skip

    def build(self, m, name, i, o):
        spare = stages.SPARE_DELIVER if self._number else stages.SPARE_SEND
        m.submodules[name] = ladder = Ladder(self._system, self.TOKEN_BITS, spare)
        push, hold = ladder.push, ladder.hold
        m.d.comb += [
            Cat(push.valid, hold.ready, ladder.advance, push.token, push.rung, push.eve, ladder.time_base).eq(i),
            o.eq(Cat(push.room, hold.valid, Mux(hold.valid, Cat(hold.payload.token, hold.payload.next_rung), 0))),
        ]

    def play(self, seed):
        chance, system = random.Random(seed), self._system
        model = golden.Ladder(system, self._number)
        modulus = 1 << system.time_bits
        time, serial = chance.choice((0, modulus - 700)), 0
        eager, takes = 0.5, 0.5
        ready = max(system.ni.slots, system.ni.sets)  # cycles of the initialisation, in which nothing is pushed
        # What is pushed in this cycle and the next ones: a Send after its grant, a repeated Ack after its choice.
        ahead: deque[int | None] = deque([None] * (stages.CHOSEN if self._number else stages.PUSHED))
        granted = -stages.PUSHED
        for cycle in itertools.count():
            if chance.random() < 0.02:
                eager, takes = chance.choice((0.05, 0.4, 1.0)), chance.choice((0.05, 0.5, 1.0))
            take, advance = chance.random() < takes, chance.random() < 0.9
            rung = ahead.popleft()
            wants = cycle >= ready and chance.random() < eager
            wants = wants and golden_ladder.has_room(model.row, self._number, model.cycle)
            grant = None
            if self._number:
                if wants and rung is None:  # a delivery
                    rung = chance.randrange(system.graph.distance_classes)
            elif wants and cycle >= granted + stages.PUSHED:
                granted, grant = cycle, chance.randrange(system.rungs)
            token, eve = 0, 0
            if rung is not None:
                serial += 1
                token = rung | (serial & 0xFFFF) << 8
                jitter = 0 if self._number else stages.PUSHED + chance.getrandbits(system.timers.jitter_bits)
                delay = system.delays[rung]
                if system.measured:
                    delay = chance.randint(system.delays[0], system.longest_delays[rung])
                eve = time + delay + jitter - 1
            push = None if rung is None else golden.Token(rung, eve + 1, token)
            hold, room = model.step(time, push, take)
            after = system.rung_after(hold[0] & 0xFF) if hold else 0
            yield (
                pack(
                    (push is not None, 1), (take, 1), (advance, 1), (token, self.TOKEN_BITS),
                    (rung or 0, self._rung_bits), (eve % modulus, system.time_bits),
                    (time % modulus, system.time_bits),
                ),
                pack(
                    (room, 1), (hold is not None, 1), (hold[0] if hold else 0, self.TOKEN_BITS),
                    (after, self._rung_bits),
                ),
            )  # fmt: skip
            if self._number:
                ahead.append(after if hold and take and chance.random() < 0.8 else None)
            else:
                ahead.append(grant)
            time += advance


class NiBlock(Block):
    """A network interface: its trace words, its counters, and every port that the trace words leave out."""

    def __init__(self, system: System):
        self._system, self._form, self._records = system, system.format, Records(system)
        self._address_bits = (system.counter_addresses - 1).bit_length()
        self._fields = {
            name: [field.width for _, field in getattr(self._records, name)]
            for name in ("accepted", "completion", "deliver", "beat", "entry")
        }
        if system.ni.merge_bits:
            self._fields["merge"] = [bits for _, bits in record_fields(system)["merge"]]
        if system.ni.acceptance:
            self._fields["arrival"] = [bits for _, bits in record_fields(system)["arrival"]]
        self._fifos = 1 + system.ni.control_classes
        self._index_bits = (max(system.ni.slots, system.ni.sets) - 1).bit_length()
        self._widths = (
            64 * system.layout.stimulus_words, 3 + self._form.flit_bits, self._form.node_bits, 32,
            self._form.incarnation_bits, 1, self._address_bits, 1, 2 * self._fifos, 1, self._index_bits,
        )  # fmt: skip
        self.inputs = sum(self._widths)
        records = self._records
        self.outputs = (
            *(
                Span(divergence.place(system.layout, word)[1], 64, self._say(word))
                for word in range(system.layout.ni_words)
            ),
            Span("counter", 32, str),
            *(Span(name, 1) for name in ("ready", "cancel.ready", "dump.ready")),
            Span("time base", system.time_bits, str),
            *self._stream("accepted", records.accepted.size - 1),
            *self._stream("completion", records.completion.size),
            *(
                part
                for fifo in range(self._fifos)
                for part in (
                    *self._stream(f"deliver {fifo}", records.deliver.size),
                    *self._stream(f"deliver {fifo} data", records.beat.size),
                )
            ),
            *self._stream("dumped", 1 + self._form.generation_bits + 16),
            *(part for way in range(system.ni.ways) for part in self._stream(f"way {way}", records.entry.size - 1)),
            *(
                part
                for name in ("merge", "arrival")
                if name in self._fields
                for part in self._stream(name, sum(self._fields[name]) - 1)
            ),
            *((Span("delivered", 1),) if system.ni.acceptance else ()),
            *((Span("sweep.ready", 1),) if system.ni.sweep else ()),
        )

    @staticmethod
    def _stream(name: str, bits: int) -> tuple[Span, Span]:
        return Span(f"{name} valid", 1), Span(name, bits)

    def _say(self, word: int) -> Callable[[int], str]:
        return lambda value: divergence.describe_word(self._system.layout, word, value)

    def build(self, m, name, i, o):
        m.submodules[name] = ni = Ni(self._system)
        stimulus, flit, node, seed, incarnation, reset, address, completing, delivering, dump, index = slices(
            i, *self._widths
        )
        m.submodules[f"{name}_host"] = script = Script(self._system)
        wiring.connect(m, ni.host, script.host)
        host, accepted, dumped = ni.host, ni.host.accepted, ni.dumped
        streams = deliver_streams(HostPort.of_ni(self._system), host)
        shown = [
            *((port.valid, port.payload) for port in (host.completion, *streams)),
            # What a slot names that is not live, or an entry that is not valid, means nothing.
            (ni.dumped_valid, Cat(dumped.live, Mux(dumped.live, Cat(dumped.generation, dumped.destination), 0))),
            *((ni.dumped_valid & entry.valid, entry.as_value()[1:]) for entry in dumped.entries),
        ]
        # All 0 while it is not valid.
        more = [Value.cast(getattr(host, name)) for name in ("merge", "arrival") if name in self._fields]
        more += [host.delivered] if self._system.ni.acceptance else []
        more += [host.sweep.ready] if self._system.ni.sweep else []
        m.d.comb += [
            Value.cast(ni.link_i).eq(flit),
            ni.node.eq(node),
            ni.seed.eq(seed),
            ni.incarnation.eq(incarnation),
            ni.node_reset.eq(reset),
            script.words.eq(stimulus),
            script.takes.eq(Cat(completing, delivering)),
            ni.link_enable.eq(script.link_enable),
            ni.dump.valid.eq(dump),
            ni.dump.payload.eq(index),
            ni.counter_address.eq(address),
            o.eq(
                Cat(
                    ni.watch, ni.counter_data, host.ready, host.cancel.ready, ni.dump.ready, ni.time_base,
                    accepted.valid, Mux(accepted.valid, accepted.as_value()[1:], 0),
                    *(Cat(valid, Mux(valid, payload, 0)) for valid, payload in shown), *more,
                )
            ),
        ]  # fmt: skip

    def play(self, seed):
        chance = random.Random(seed)
        system, form = self._system.replace(run={"seed": seed}), self._form
        node = chance.randrange(system.nodes)
        model = golden.Ni(system, node)
        network = Network(chance, system, node, patient=self.patient)
        host = HostileHost(chance, system, node, patient=self.patient, fickle=self.fickle)
        taker, resting = Taker(chance, system), 0
        incarnation, reset = 1, 0
        asked: deque[int | None] = deque([None] * stages.CHOSEN)  # what dumps ask for, from the choice to the action
        # What is read is as of two cycles before the address.
        counters = system.counter_addresses
        counted = deque([[0] * counters] * 3, maxlen=3)
        address, read = 0, deque([0] * LATENCY)
        constants = [(node, form.node_bits), (seed_for(seed, UNIT_NI, node), 32)]
        while True:
            flit, words = network.next(), host.next()
            takes = taker.next()
            ports = answer = None
            if reset:
                asked = deque([None] * stages.CHOSEN)
            else:
                flags = words[trace.STIMULUS_FLAGS]
                bits = {name: flags >> bit & 1 == 1 for bit, name in enumerate(trace.STIMULUS_BITS)}
                refusal, sweep = services_words(system, words)
                ports = model.ports(cancel=bits["cancel.valid"], quiesce=bits["quiesce"], refusal=refusal, sweep=sweep)
                ports = ports._replace(dump_ready=ports.dump_ready and not any(each is not None for each in asked))
                acting = asked.popleft()
                answer = None if acting is None else self._dumped(model, acting)
                asked.append(takes.index if takes.dump and ports.dump_ready else None)
            shown = model.step(
                flit, words, incarnation=incarnation, reset=reset > 0, completion_ready=takes.completion,
                deliver_ready=takes.deliver,
            )  # fmt: skip
            yield (
                pack(
                    *((word, 64) for word in words),
                    flit_field(flit, form.flit_bits),
                    *constants,
                    (incarnation, form.incarnation_bits),
                    (reset > 0, 1),
                    (address, self._address_bits),
                    (takes.completion, 1),
                    *((ready, 1) for fifo in takes.deliver for ready in fifo),
                    (takes.dump, 1),
                    (takes.index, self._index_bits),
                ),
                pack(*((word, 64) for word in shown), (read.popleft(), 32), *self._shown(ports, answer, shown)),
            )
            read.append(counted[0][address])
            address = chance.randrange(counters)
            counted.append(self._counted(counted[-1], shown, model.replies_dropped))
            network.hear(shown)
            host.hear(words, shown, reset > 0)
            resting = 0 if reset else resting + self._rests(shown)
            self.reached = [*host.reached, *self._reached(model, flit, shown, resting, incarnation)]
            if reset:
                reset -= 1
            elif not self.patient and chance.random() < 1 / 600:
                reset = chance.choice((1, 2, 20))
                incarnation = incarnation % ((1 << form.incarnation_bits) - 1) + 1
                network.incarnation = incarnation

    def _rests(self, words: list[int]) -> bool:
        """Whether a slot begins its quarantine."""
        word, _ = trace.at_lane(words, LANE_COMPLETE)
        status, cause = divmod(trace.DETAIL.of(word), 1 << CAUSE_BITS)
        rests = trace.EVENT.of(word) == Event.COMPLETE and status == Status.UNKNOWN and cause != Cause.BEST_EFFORT
        return bool(rests and self._system.timers.quarantine)

    def _reached(self, model: golden.Ni, flit: Flit, words: list[int], resting: int, incarnation: int) -> list[str]:
        """What neither event nor reason tells; ``resting`` slots went into quarantine since the last reset."""
        found = []
        word, uid = trace.at_lane(words, LANE_TX)
        if trace.EVENT.of(word) == Event.KILLED and self._is_live(model, uid):
            found.append("REPEAT OF WHAT IS SENT ONCE")
        word, uid = trace.at_lane(words, LANE_RX)
        event, detail = trace.EVENT.of(word), trace.DETAIL.of(word)
        if detail == MOST_TRIES and event in (Event.REPEAT, Event.ACK_REPEAT):
            found.append(f"{Event(event).name} {detail}")
        if event == Event.GIVE_UP:
            found.append(f"GIVE_UP {Cause(detail).name}")
        if event == Event.ACK_IGNORED and self._is_live(model, uid):
            _, incarnated, slot, _ = unpack_uid(uid)
            if incarnated == incarnation and model.dumped(slot, 0).destination != trace.PEER.of(word):
                found.append("ACK OF ANOTHER NODE")
        if resting > self._system.ni.slots and self._rests(words):
            found.append(f"QUARANTINE COMES ROUND {self._system.ni.slots}")
        if flit.first and flit.last and self._form.one_flit_control and flit.data & KIND_MASK in (Kind.SEND, Kind.BE):
            body = self._form.flit_bits - 16
            if flit.data >> body == CRC16.of(flit.data & (1 << body) - 1, body):
                found.append(f"ONE FLIT {Kind(flit.data & KIND_MASK).name}")
        return found

    def _is_live(self, model: golden.Ni, uid: int) -> bool:
        """Whether the slot still holds the datagram of an event."""
        _, _, slot, generation = unpack_uid(uid)
        found = model.dumped(slot, 0) if slot < self._system.ni.slots else None
        return found is not None and found.live and found.generation == generation

    def _dumped(self, model: golden.Ni, index: int) -> Dumped:
        """What a dump of ``index`` says; a slot that does not exist is not live."""
        ni = self._system.ni
        slot = index & (1 << (ni.slots - 1).bit_length()) - 1
        found = model.dumped(min(slot, ni.slots - 1), index & ni.sets - 1)
        return found if slot < ni.slots and found.live else found._replace(live=False, generation=0, destination=0)

    def _shown(self, ports: Ports | None, dumped: Dumped | None, words: list[int]) -> Iterator[tuple[int, int]]:
        """The parts behind the counter: of the ports, of the event lane of accept, and of a state dump."""
        widths = self._fields
        yield from ((bit, 1) for bit in ((ports.ready, ports.cancel_ready, ports.dump_ready) if ports else (0, 0, 0)))
        yield ports.time % (1 << self._system.time_bits) if ports else 0, self._system.time_bits
        word, uid = trace.at_lane(words, LANE_ACCEPT)
        _, _, slot, generation = unpack_uid(uid)
        life = (1, slot, generation, trace.EXTRA.of(word))
        if control := self._system.ni.control_slots:
            life += (int(slot >= self._system.ni.slots - control),)
        yield from _record(life if word else None, widths["accepted"])
        offers = [(ports.completion if ports else None, widths["completion"])]
        for fifo in range(self._fifos):
            record = ports.deliver[fifo] if ports else None
            if record and not self._system.ni.source_incarnation:
                record = (record.source, record.cls, record.length)
            offers += [
                (record, widths["deliver"]),
                (ports.deliver_data[fifo] if ports else None, widths["beat"]),
            ]
        for offered, of in offers:
            yield offered is not None, 1
            yield from _record(offered, of)
        yield dumped is not None, 1
        yield from zip(dumped[:3] if dumped else (0, 0, 0), (1, self._form.generation_bits, 16), strict=True)
        for entry in dumped.entries if dumped else [None] * self._system.ni.ways:
            source, incarnation, slot, generation = unpack_uid(entry or 0)
            yield from _record(None if entry is None else (1, source, slot, generation, incarnation), widths["entry"])
        for name in ("merge", "arrival"):
            if name in widths:
                told = getattr(ports, name) if ports else None
                yield from _record(None if told is None else (1, *told), widths[name])
        if self._system.ni.acceptance:
            yield bool(ports and ports.delivered), 1
        if self._system.ni.sweep:
            yield bool(ports and ports.sweep_ready), 1

    def _counted(self, before: list[int], words: list[int], replies_dropped: int) -> list[int]:
        """The counters after a cycle with these trace words."""
        counters = list(before)
        for lane in range(len(self._system.layout.lanes)):
            word = words[trace.lane_word(lane)]
            event = trace.EVENT.of(word)
            counter = _COUNTERS.get((event, trace.DETAIL.of(word) if event == Event.DROP else 0))
            if counter is not None:
                counters[counter] += 1
        counters[Counter.REPLIES_DROPPED] = replies_dropped
        return counters

    def seen(self, output):
        found = []
        for lane in range(len(self._system.layout.lanes)):
            word = output >> trace.WORD_BITS * trace.lane_word(lane) & trace.MASK64
            if word:
                event, detail = Event(trace.EVENT.of(word)), trace.DETAIL.of(word)
                found.append(f"DROP {Drop(detail).name}" if event == Event.DROP else event.name)
        return found


class BlockGroup(wiring.Component):
    """The RTL of several blocks, side by side between one input and one output vector."""

    def __init__(self, blocks: dict[str, Block]):
        self._blocks = blocks
        super().__init__(
            {
                "i": In(sum(block.inputs for block in blocks.values())),
                "o": Out(sum(block.output_bits for block in blocks.values())),
            }
        )

    def elaborate(self, platform):
        m = Module()
        blocks = self._blocks.values()
        inputs = slices(self.i, *(block.inputs for block in blocks))
        outputs = slices(self.o, *(block.output_bits for block in blocks))
        for number, (block, i, o) in enumerate(zip(blocks, inputs, outputs, strict=True)):
            block.build(m, f"block{number}", i, o)
        return m
