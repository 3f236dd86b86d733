"""The network interface a third time: section 4 of the cycle contract as plain Python, one cycle a step.

Written from `docs/` alone, by hands that have read neither the RTL nor the golden model; nothing of the project is
imported.  Numbers in comments are sections of docs/reference/cycle-contract.md.

What happens in a cycle reads the state at its start.  Queues and registers take what is written to them at the end of
the cycle (`Queue.tick`, `Ni._later`); the rest is read before it is written, which fixes the order of the steps in
`Ni._cycle`.
"""

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from tests.third import derived
from tests.third.derived import Numbers

SEND, ACK, FORGET, BE, REJECT = 1, 2, 3, 4, 6
ACCEPTED, UNKNOWN, REJECTED, NEVER_SENT = 0, 1, 2, 3
NO_CAUSE, RETRY_LIMIT, DEADLINE, CANCELLED, BEST_EFFORT, DESTINATION, LENGTH, MODE = range(8)
CLASS, RESTARTED, SILENT = 8, 9, 10
(
    DROP_NONE, DROP_CRC, DROP_KIND, DROP_LENGTH, DROP_MISROUTED, DROP_SOURCE, DROP_SLOT, DROP_EXTENSION,
    DROP_INCARNATION, DROP_TABLE_FULL, DROP_DELIVER_FULL, DROP_TIMER_FULL, DROP_RESETTING, DROP_NOT_OPEN,
    DROP_PORT_FULL, DROP_EARLY,
) = range(16)  # fmt: skip

#: docs/reference/events.md.
EVENT = {
    "SEND": 1, "ACK": 2, "FORGET": 3, "BE": 4, "KILLED": 5, "REJECT": 6, "DELIVER": 8, "DELIVER_BE": 9, "DUPLICATE": 10,
    "DROP": 11, "RELEASE": 12, "ACK_IGNORED": 13, "FORGOTTEN": 14, "FORGET_IGNORED": 15, "REPEAT": 16, "ACK_REPEAT": 17,
    "GIVE_UP": 18, "ORPHAN": 19, "REJECT_IGNORED": 20, "SWEPT": 21, "ACCEPT": 24, "COMPLETE": 25, "TAKE": 26,
    "RESET": 27, "FRAGMENT": 38,
}  # fmt: skip
#: Section 7: the lanes of an NI before its ports; "take 1", … come after.
LANES = ("tx", "rx", "accept", "complete", "take", "fragment")
#: The words of `link_o` and of `deliver_data` between them.
PORTS = ("flags", "link_o low", "link_o high", "deliver_data low", "deliver_data high")


def take_lanes(control_classes: int) -> list[str]:
    """The lanes of the deliver FIFOs of control classes."""
    return [f"take {i + 1}" for i in range(control_classes)]


def word_names(control_classes: int) -> list[str]:
    """What each trace word of an NI shows."""

    def pairs(lanes: Iterable[str]) -> list[str]:
        return [name for lane in lanes for name in (f"lane {lane}", f"lane {lane}, uid")]

    return [*pairs(LANES), *PORTS, *pairs(take_lanes(control_classes))]


class Flit(NamedTuple):
    valid: int = 0
    first: int = 0
    last: int = 0
    data: int = 0


class Record(NamedTuple):
    """What the host gives with a datagram, as wide as the configuration says (4.2)."""

    destination: int = 0
    cls: int = 0
    mode: int = 0
    length: int = 0
    tag: int = 0
    deadline: int = 0
    retry_limit: int = 0
    expect: int = 0


class Offered(NamedTuple):
    """What a host offers on `send` and `send_data`, or on `send_control` and `send_control_data`, in a cycle."""

    send: int = 0
    send_data: int = 0
    record: Record = Record()
    data: int = 0


class Inputs(NamedTuple):
    """The inputs of one cycle; ``deliver_ready`` has (record, data) of each deliver FIFO."""

    flit: Flit
    data: Offered
    cancel: int
    quiesce: int
    link_enable: int
    slot: int
    generation: int
    incarnation: int
    deliver_ready: list[tuple[int, int]]
    completion_ready: int
    control: Offered = Offered()
    merge_mask: int = 0
    merge_word: int = 0
    refusal: int = 0
    sweep: int = 0
    source: int = 0  # of the sweep
    dump: int = 0


class Completion(NamedTuple):
    slot: int
    generation: int
    destination: int
    tag: int
    status: int
    cause: int
    peer_incarnation: int


class Delivered(NamedTuple):
    """A deliver record; ``incarnation`` is 0 without `ni.source_incarnation` (4.8)."""

    source: int
    incarnation: int
    cls: int
    length: int


class Ports(NamedTuple):
    """What is visible on the other ports in a cycle; None where nothing is valid."""

    ready: bool
    time: int
    cancel_ready: bool
    dump_ready: bool
    completion: Completion | None
    deliver: list[Delivered | None]
    deliver_data: list[tuple[int, int] | None]  # data, last
    merge: tuple[int, int, int] | None = None  # slot, generation, tries (4.15)
    # 4.16: source, incarnation, class, length, try, best effort, word; whether a data message is delivered
    arrival: tuple[int, int, int, int, int, int, int] | None = None
    delivered: bool = False
    sweep_ready: bool = False  # 4.17


class Entry(NamedTuple):
    """A datagram in the receive table (4.7)."""

    source: int
    slot: int
    generation: int
    incarnation: int


class SendToken(NamedTuple):
    slot: int
    generation: int
    tries: int


class AckToken(NamedTuple):
    entry: Entry
    way: int
    echo: int
    tries: int


class Reply(NamedTuple):
    """An Ack, a Forget or a REJECT that waits for the link; ``uid`` names the datagram it is about."""

    kind: int
    fields: dict[str, int]
    uid: int


class Finish(NamedTuple):
    slot: int
    generation: int
    status: int
    cause: int


class Grant(NamedTuple):
    """A Send or BE that was granted in ``cycle`` and is sent."""

    cycle: int

    token: SendToken
    fields: dict[str, int]
    payload: list[int]


class Offer(NamedTuple):
    """A flit of payload on its way to a deliver FIFO (4.8)."""

    fifo: int
    data: int
    last: int


class Arrival(NamedTuple):
    """What a cycle on `link_i` comes to, six cycles later (4.4)."""

    offer: Offer | None = None
    fragment: bool = False
    message: list[int] | None = None


class Slot:
    """A slot of the send table."""

    def __init__(self):
        self.live = False
        self.accepted = 0  # when, if it is live
        self.generation = 0
        self.record = Record()
        self.refused = NO_CAUSE
        self.payload: list[int] = []
        self.deadline: int | None = None
        self.judged: int | None = None  # 4.5, point 4: when an entry of it from the new queue was, last
        self.stamp = 0  # 4.6.1
        self.echo = 0


class Queue:
    """Section 1: a memory and an output register.  `push` and `pop` take effect with `tick`."""

    def __init__(self, depth: int):
        self.depth = depth
        self.memory: deque[Any] = deque()
        self.output: Any = None
        self._pushed: list[Any] = []
        self._popped = False

    @property
    def level(self) -> int:
        return len(self.memory)

    @property
    def empty(self) -> bool:
        return not self.memory and self.output is None

    def push(self, *items: Any) -> None:
        self._pushed.extend(items)

    def pop(self) -> Any:
        self._popped = True
        return self.output

    def tick(self) -> None:
        if self.output is None or self._popped:
            self.output = self.memory.popleft() if self.memory else None
        self.memory.extend(self._pushed)
        self._pushed, self._popped = [], False
        assert len(self.memory) <= self.depth


class Context:
    """4.2, 4.12: a way into the NI, with its free queue and its launch queue; state PAYLOAD while ``filling``."""

    def __init__(self, slots: int, launches: int, *, control: bool):
        self.control = control
        self.free, self.launches = Queue(slots), Queue(launches)
        self.filling: int | None = None
        self.beats_left = 0
        self.ready = self.data_ready = False


class DeliverFifo:
    """4.8: a queue of records, and a queue of flits with commit and rollback."""

    def __init__(self, flits: int, records: int):
        self.records = Queue(records)
        self.data = Queue(flits)
        self.uncommitted: list[tuple[int, int]] = []
        self.overflow = False

    def offer(self, beat: tuple[int, int]) -> None:
        if self.data.level + len(self.uncommitted) < self.data.depth and not self.overflow:
            self.uncommitted.append(beat)
        else:
            self.overflow = True

    @property
    def full(self) -> bool:
        """The message that acts now finds no room."""
        return self.overflow or self.records.level == self.records.depth

    def commit(self, record: Delivered) -> None:
        self.data.push(*self.uncommitted)
        self.records.push(record)

    def forget(self) -> None:
        self.uncommitted, self.overflow = [], False

    @property
    def empty(self) -> bool:
        """4.10: nothing committed is left."""
        return self.records.empty and self.data.empty

    @property
    def untaken(self) -> int:
        return self.records.level + (self.records.output is not None)

    def tick(self) -> None:
        self.records.tick()
        self.data.tick()


class Ladder:
    """4.6: rungs of tokens with due times, and a hold register."""

    def __init__(self, numbers: Numbers):
        self.classes, self.steps = numbers.classes, numbers.section["timers"]["backoff_steps"]
        self.depth = numbers.timer_depth
        self.rungs: list[deque[tuple[int, Any]]] = [deque() for _ in range(self.classes + self.steps)]
        self.known = [0] * len(self.rungs)  # levels at the start of the cycle before
        self.since = 0  # cycles after reset
        self.hold: Any = None
        self._emptied = False
        self._pushed: list[tuple[int, int, Any]] = []

    def rung(self, cls: int, r: int) -> int:
        return cls if r == 0 or self.steps == 0 else self.classes - 1 + min(r, self.steps)

    def successor(self, q: int) -> int:
        if self.steps == 0 or q == len(self.rungs) - 1:
            return q
        return self.classes if q < self.classes else q + 1

    def turn(self) -> int | None:
        """The rung whose turn it is."""
        n, odd = divmod(self.since, 2)
        if odd:
            i = n % max(self.steps + (self.steps % 2 == 0), 3)
            return self.classes + i if i < self.steps else None
        first = n % max(self.classes, 2)
        return first if first < self.classes else None

    def room(self, free: int) -> bool:
        """Whether every rung is known to have so many free places."""
        return all(level <= self.depth - free for level in self.known)

    def push(self, rung: int, due: int, token: Any) -> None:
        self._pushed.append((rung, due, token))

    def take(self) -> Any:
        self._emptied = True
        return self.hold

    def tick(self, passed: Callable[[int], bool]) -> None:
        """The end of a cycle; ``passed`` says whether a time is due in it."""
        levels = [len(rung) for rung in self.rungs]
        if self.hold is None:
            turn = self.turn()
            if turn is not None:
                rung, after = self.rungs[turn], self.successor(turn)
                if rung and passed(rung[0][0]) and (after == turn or self.known[after] <= self.depth - 6):
                    self.hold = rung.popleft()[1]
        elif self._emptied:
            self.hold = None
        self._emptied = False
        self.known, self.since = levels, self.since + 1
        for rung, due, token in self._pushed:
            self.rungs[rung].append((due, token))
            assert len(self.rungs[rung]) <= self.depth
        self._pushed = []


class RoundTrips:
    """4.6.1: means, deviations and time-outs of the distance classes."""

    def __init__(self, numbers: Numbers):
        self.delays, self.ceiling = numbers.delays, numbers.ceiling
        firsts = self.delays[: numbers.classes]
        self.mean = [8 * (d - numbers.slack) for d in firsts]
        self.deviation = [numbers.slack] * len(firsts)
        self.timeout = list(firsts)

    def sample(self, q: int, m: int) -> int:
        """The time-out after a sample of class ``q``."""
        e = m - self.mean[q] // 8
        self.mean[q] += e
        self.deviation[q] += abs(e) - self.deviation[q] // 4
        return min(max(self.mean[q] // 8 + self.deviation[q], self.delays[q]), self.ceiling)

    def delay(self, q: int, r: int, steps: int) -> int:
        s = min(r, steps)
        while s and self.timeout[q] << s > self.ceiling:
            s -= 1
        return self.timeout[q] << s


class Silence:
    """4.14: repeats to each node without an answer, and which silent nodes have had a probe in this period."""

    def __init__(self, nodes: int, after: int, period: int):
        self.after, self.period = after, period
        self.repeats, self.known = [0] * nodes, [0] * nodes
        self.probed = [False] * nodes
        self.counter = 0

    def silent(self, node: int) -> bool:
        return self.known[node] == self.after

    def tick(self, probe: int | None, *, link_enable: int) -> None:
        """The end of a cycle; ``probe``: the silent node that a Send leaves for."""
        if link_enable:
            self.counter = (self.counter + 1) % self.period
            if self.counter == 0:
                self.probed = [False] * len(self.probed)
        if probe is not None:
            self.probed[probe] = True


class Ni:
    """The NI of a node, as after system reset.

    Parameters
    ----------
    numbers : what follows from the configuration (`derived.read`)
    node : its number
    """

    def __init__(self, numbers: Numbers, node: int):
        self.n, self.node = numbers, node
        self.ni, self.timers = numbers.section["ni"], numbers.section["timers"]
        self.wire = numbers.section["wire"]
        self.slots: int = self.ni["slots"]
        self.control_slots: int = self.ni["control_slots"]
        self.fifos: int = 1 + self.ni["control_classes"]
        self.chance = derived.seed_for(numbers.section["run"]["seed"], 1, node)
        self.was_reset = False
        self.clear()

    # 4.1, 4.11 Reset

    def clear(self) -> None:
        """All state but the generator, as after reset."""
        n, ni = self.n, self.ni
        self.since_reset = 0
        self.time = 0
        self.cycle = 0
        self.data = Context(self.slots - self.control_slots, self.slots, control=False)
        self.control = Context(self.control_slots, self.control_slots, control=True) if self.control_slots else None
        self.contexts = [context for context in (self.control, self.data) if context]
        self.repeats = Queue(self.slots)
        self.replies = Queue(ni["reply_depth"])
        self.completions = Queue(self.slots)
        self.quarantine: deque[tuple[int, int, int]] = deque()  # due, slot, generation
        self.slot = [Slot() for _ in range(self.slots)]
        self.busy = 0
        self.next_grant = 0
        self.last_worm_over = 0
        self.transmitting: tuple[int, int, int] | None = None  # slot, first and last cycle
        self.leaving: dict[int, Flit] = {}
        self.granted: dict[int, tuple[SendToken, bool]] = {}  # by the cycle of judgement: whose turn, whether a repeat
        self.sent: dict[int, Grant] = {}  # by the cycle of the token's push
        self.merging: dict[int, Grant] = {}  # by the cycle in which the merge port is read
        silent_after, silent_probe = self.timers["silent_after"], self.timers["silent_probe"]
        self.silence = Silence(n.nodes, silent_after, silent_probe) if silent_after else None
        self.probe: int | None = None  # the silent node that a Send of this cycle leaves for
        self.finish: Finish | None = None
        self.finish_taken = False
        self.sends, self.acks = Ladder(n), Ladder(n)
        self.trips = RoundTrips(n) if n.ceiling else None
        self.table: list[list[Entry | None]] = [[None] * ni["ways"] for _ in range(ni["sets"])]
        sizes = n.deliver_flits, ni["deliver_records"]
        of_control = ni["control_flits"] or sizes[0], ni["control_records"] or sizes[1]
        self.fifo = [DeliverFifo(*(of_control if i else sizes)) for i in range(self.fifos)]
        self.worm: list[int] | None = None  # the message under way
        self.payload_ends, self.payload_fifo = 0, 0
        self.arrivals = deque([Arrival()] * 6)  # of cycles c−6 … c−1
        self.requests: deque[Callable[[], None] | None] = deque([None] * 4)  # chosen in c−4 … c−1
        self.index = 0  # 4.17: the set whose turn it is
        self.step_acts, self.step_source = -1, 0  # when the last step acts that was chosen, and for whom
        self.changes: deque[tuple[int, list[Entry | None]]] = deque(maxlen=5)  # of the table: the cycle, and the set
        self.later: dict[int, list[Callable[[], None]]] = {}
        self.shown: dict[int, dict[str, tuple[int, int]]] = {}

    @property
    def ready(self) -> bool:
        return self.since_reset >= max(self.slots, self.ni["sets"], self.n.nodes if self.silence else 0)

    @property
    def link_o(self) -> Flit:
        """What the link shows in the cycle of the next `step`, if that is none of reset."""
        return self.leaving.get(self.cycle, Flit())

    def step(self, inputs: Inputs, reset: bool = False) -> list[int]:
        """One cycle; returns its trace words (section 7)."""
        if reset:
            words = [0] * len(word_names(self.fifos - 1))
            if not self.was_reset:
                lost = sum(fifo.untaken for fifo in self.fifo)
                words[2 * LANES.index("rx")] = EVENT["RESET"] | lost << 32
                self.clear()
            self.was_reset = True
            return words
        self.was_reset = False
        return self._cycle(inputs)

    def _cycle(self, i: Inputs) -> list[int]:
        self.i = i
        self._offer_ready()
        flags = self._flags()
        beat = self.fifo[0].data.output[0] if self.fifo[0].data.output else 0
        if not self.ready and self.since_reset < self.slots:
            self._free(self.since_reset, 0)
        self._merge()
        self._start_timer()
        self._judge()
        self._transmit()
        quiet = not self._something_acts()
        self._act(self.arrivals.popleft(), self.requests.popleft())
        self.requests.append(self._choose(acting=self.arrivals[3].message is not None, quiet=quiet))
        self.arrivals.append(self._assemble(i.flit))
        self._complete()
        self._accept()
        self._take()
        flit = self.leaving.pop(self.cycle, Flit())
        shown = self.shown.pop(self.cycle, {})
        self._end()
        flags = flit.valid | flit.first << 1 | flit.last << 2 | flags << 3

        def lanes(names: Iterable[str]) -> list[int]:
            return [word for name in names for word in shown.get(name, (0, 0))]

        ports = [flags, flit.data & derived.MASK64, flit.data >> 64, beat & derived.MASK64, beat >> 64]
        return [*lanes(LANES), *ports, *lanes(take_lanes(self.fifos - 1))]

    def ports(self, *, cancel: int = 0, quiesce: int = 0, refusal: int = 0, sweep: int = 0) -> Ports:
        """The other ports in the cycle of the next `step`, if that is none of reset."""
        cancel_ready = self._may_request(acting=self.arrivals[4].message is not None) and not (
            self.finish or self.sends.hold or self.acks.hold
        )
        return Ports(
            ready=self.ready,
            time=self.time,
            cancel_ready=cancel_ready,
            dump_ready=bool(cancel_ready and not cancel and not sweep and quiesce and not self._something_acts()),
            completion=self.completions.output,
            deliver=[fifo.records.output for fifo in self.fifo],
            deliver_data=[fifo.data.output for fifo in self.fifo],
            merge=self._merge_offer(),
            arrival=self._arrival(),
            delivered=self._is_delivered(refusal),
            sweep_ready=self._ends_sweep(),
        )

    def dumped(self, number: int, index: int) -> tuple[tuple[int, int] | None, list[int | None]]:
        """What a dump that acts now reads (4.5, point 6): generation and destination of a slot if it is live, the UIDs
        of a set.
        """
        slot = self.slot[number] if number < self.slots and self._is_known(number, 5) else None
        entries = self.table[index & self.ni["sets"] - 1]
        return (
            None if slot is None else (slot.generation, slot.record.destination),
            [None if entry is None else self._entry_uid(entry) for entry in entries],
        )

    def _end(self) -> None:
        """The end of the cycle: what was written becomes visible."""
        of_contexts = [queue for context in self.contexts for queue in (context.free, context.launches)]
        for queue in (*of_contexts, self.repeats, self.replies, self.completions, *self.fifo):
            queue.tick()
        self.sends.tick(self._passed)
        self.acks.tick(self._passed)
        if self.finish_taken:
            self.finish, self.finish_taken = None, False
        for write in self.later.pop(self.cycle, ()):
            write()
        if self.silence:
            self.silence.tick(self.probe, link_enable=self.i.link_enable)
            self.probe = None
        self.since_reset += 1
        self.cycle += 1
        self.time = self.time + self.i.link_enable & (1 << self.n.time_bits) - 1

    def _at_end_of(self, cycle: int, write: Callable[[], None]) -> None:
        self.later.setdefault(cycle, []).append(write)

    def _passed(self, due: int) -> bool:
        """due ≤ time, within half the range of time (9.3)."""
        return not (self.time - due) >> self.n.time_bits - 1 & 1

    def _show(self, lane: str, event: str, *, uid=0, peer=0, length=0, detail=0, extra=0, after=0) -> None:
        """An event on a lane, ``after`` cycles from now (section 7)."""
        word = EVENT[event] | detail << 8 | peer << 16 | length << 32 | extra << 48
        lanes = self.shown.setdefault(self.cycle + after, {})
        assert lane not in lanes
        lanes[lane] = word, uid

    def _uid(self, slot: int, generation: int) -> int:
        """The UID of a datagram of this node."""
        return self.n.uid(self.node, self.i.incarnation, slot, generation)

    # 4.2, 4.12 Host side: accept

    def _offer_ready(self) -> None:
        """Which streams of the host are ready; control goes first."""
        i = self.i
        for context in self.contexts:
            context.ready, context.data_ready = self._may_accept(context), context.filling is not None
        if self.control:
            offered = i.control
            if (offered.send and self.control.ready) or (offered.send_data and self.control.data_ready):
                self.data.ready = self.data.data_ready = False

    def _may_accept(self, context: Context) -> bool:
        if context.filling is not None or not self.ready or self.i.quiesce or context.free.output is None:
            return False
        if self._in_transmission(context.free.output[0]) or context.launches.level >= context.launches.depth:
            return False
        reserved = self.ni["reserved_slots"]
        if context.control or not reserved or self._may_use_reserve(self.i.data.record.cls):
            return True
        return context.free.level + 1 > reserved

    def _may_use_reserve(self, cls: int) -> bool:
        classes = self.ni["reserved_classes"] or self.ni["control_classes"]
        return cls >= (1 << self.wire["class_bits"]) - classes

    def _free(self, slot: int, generation: int) -> None:
        """Push to the free queue: of data slots, or of control slots."""
        context = self.control if slot >= self.slots - self.control_slots else self.data
        assert context
        context.free.push((slot, generation))

    def _in_transmission(self, slot: int) -> bool:
        return (
            self.transmitting is not None
            and self.transmitting[0] == slot
            and self.transmitting[1] <= self.cycle <= self.transmitting[2]
        )

    def _accept(self) -> None:
        for context in self.contexts:
            offered = self.i.control if context.control else self.i.data
            if context.data_ready and offered.send_data:
                self._beat(context, offered.data)
            elif context.ready and offered.send:
                number, generation = context.free.pop()
                slot, record = self.slot[number], offered.record
                slot.generation, slot.record, slot.payload = generation, record, []
                slot.refused = self._refusal(record, context)
                self.busy += 1
                if record.length:
                    context.filling, context.beats_left = number, self.n.payload_flits(record.length)
                else:
                    self._accepted(context, number)

    def _refusal(self, record: Record, context: Context) -> int:
        """The cause for which a record is refused, NO_CAUSE if it is not."""
        if record.destination >= self.n.nodes or record.destination == self.node:
            return DESTINATION
        if record.mode > 1:
            return MODE
        if record.length > self.wire["mtu"]:
            return LENGTH
        return CLASS if context.control and not self.n.is_control(record.cls) else NO_CAUSE

    def _beat(self, context: Context, data: int) -> None:
        assert context.filling is not None
        slot = self.slot[context.filling]
        if len(slot.payload) < self.n.payload_flits(self.wire["mtu"]):
            left = slot.record.length * 8 - len(slot.payload) * self.n.flit_bits
            slot.payload.append(data & (1 << min(left, self.n.flit_bits)) - 1)
        context.beats_left -= 1
        if context.beats_left == 0:
            self._accepted(context, context.filling)
            context.filling = None

    def _accepted(self, context: Context, number: int) -> None:
        slot = self.slot[number]
        record = slot.record
        slot.live, slot.accepted = True, self.cycle
        slot.deadline = self.time + record.deadline if record.deadline else None
        context.launches.push((number, slot.generation))
        kind = BE if record.mode == 1 and slot.refused == NO_CAUSE else SEND
        uid = self._uid(number, slot.generation)
        self._show(
            "accept", "ACCEPT", uid=uid, peer=record.destination, length=record.length, detail=kind, extra=record.tag
        )

    # 4.3 Transmitter

    def _transmit(self) -> None:
        if not self.ready or not self.i.link_enable or self.cycle < self.next_grant:
            return
        sends, finish_empty = self.sends.room(4), self.finish is None
        control = self.control and self.control.launches
        if self.replies.output is not None:
            reply: Reply = self.replies.pop()
            self._leave(self.cycle, self.n.message(reply.fields | {"kind": reply.kind}))
            name = {ACK: "ACK", FORGET: "FORGET", REJECT: "REJECT"}[reply.kind]
            self._show("tx", name, uid=reply.uid, peer=reply.fields["destination"], after=6)
        elif control and sends and control.output is not None and finish_empty:
            self._grant_new(control)
        elif sends and self.repeats.output is not None and (finish_empty or not self.silence):
            self._grant(self.repeats.pop(), repeat=True)
        elif sends and self.data.launches.output is not None and finish_empty:
            self._grant_new(self.data.launches)

    def _grant_new(self, launches: Queue) -> None:
        number, generation = launches.pop()
        self._grant(SendToken(number, generation, 0), repeat=False)

    def _grant(self, token: SendToken, *, repeat: bool) -> None:
        self.granted[self.cycle + 2] = token, repeat
        self.next_grant = self.cycle + 3

    def _judge(self) -> None:
        """In *g+2* of an entry: it is killed, it ends by the finish register, or it is sent."""
        if self.cycle not in self.granted:
            return
        token, repeat = self.granted.pop(self.cycle)
        number, generation, tries = token
        slot = self.slot[number]
        record = slot.record
        refused, best_effort = slot.refused != NO_CAUSE, record.mode == 1
        if not repeat:
            slot.judged = self.cycle
        if not self._is_known(number, 3) or slot.generation != generation or (repeat and (best_effort or refused)):
            self._show("tx", "KILLED", uid=self._uid(number, generation), after=4)
            return
        if refused:
            self._load_finish(Finish(number, generation, REJECTED, slot.refused))
            return
        if self.silence and self.silence.silent(record.destination):
            if not self._is_probe(record, repeat=repeat):
                self._load_finish(Finish(number, generation, UNKNOWN if repeat else NEVER_SENT, SILENT))
                return
            self.probe = record.destination
        fields = {
            "kind": BE if best_effort else SEND,
            "destination": record.destination,
            "source": self.node,
            "slot": number,
            "generation": generation,
            "incarnation": self.i.incarnation,
            "peer_incarnation": record.expect,
            "try": self._echo(tries),
            "length": record.length,
            "class": record.cls,
            "mode": record.mode,
        }
        g = self.cycle - 2
        grant = Grant(g, token, fields, list(slot.payload))
        flits = self.n.message(fields, grant.payload)
        self._leave(g, flits)
        self.next_grant = max(self.next_grant, g + 3)
        self.transmitting = number, g + 1, g + len(flits)
        name, uid = "BE" if best_effort else "SEND", self._uid(number, generation)
        self._show("tx", name, uid=uid, peer=record.destination, length=record.length, detail=tries, after=4)
        self.sent[g + 3] = grant
        if best_effort:
            self._load_finish(Finish(number, generation, UNKNOWN, BEST_EFFORT))

    def _is_probe(self, record: Record, *, repeat: bool) -> bool:
        """Of a Send or BE to a silent node: whether it is sent all the same (4.14)."""
        assert self.silence
        return not repeat and record.mode == 0 and not self.silence.probed[record.destination]

    def _leave(self, g: int, flits: list[int]) -> None:
        """A worm granted in ``g``."""
        n = len(flits)
        for j, data in enumerate(flits):
            self.leaving[g + 6 + j] = Flit(1, int(j == 0), int(j == n - 1), data)
        self.next_grant, self.last_worm_over = g + n, g + n + 6

    def _load_finish(self, finish: Finish) -> None:
        """In *g+2*: visible from the next cycle on."""

        def load() -> None:
            self.finish = finish

        self._at_end_of(self.cycle, load)

    def _start_timer(self) -> None:
        """In *g+3* of a SEND: its token and its stamp."""
        grant = self.sent.pop(self.cycle, None)
        if grant is None:
            return
        if self.ni["merge_bits"] and grant.payload:  # length > 0
            self.merging[self.cycle + 1] = grant
        if grant.fields["kind"] != SEND:
            return
        token = grant.token
        jitter = 0
        if self.timers["jitter_bits"]:
            self.chance = derived.draw(self.chance)
            jitter = self.chance & (1 << self.timers["jitter_bits"]) - 1
        rung, delay = self._delay(self.sends, grant.fields["destination"], token.tries)
        self.sends.push(rung, self.time + 3 + delay + jitter, token)
        slot, time = self.slot[token.slot], self.time

        def stamp() -> None:
            slot.stamp, slot.echo = time, self._echo(token.tries)

        self._at_end_of(self.cycle, stamp)

    def _echo(self, tries: int) -> int:
        return tries & (1 << self.wire["try_bits"]) - 1

    def _delay(self, ladder: Ladder, peer: int, r: int) -> tuple[int, int]:
        """Rung and delay of a token that is pushed now (4.6, 4.6.1)."""
        q = self.n.distance(self.node, peer)
        rung = ladder.rung(q, r)
        return rung, self.trips.delay(q, r, ladder.steps) if self.trips else self.n.delays[rung]

    # 4.15 Merge port

    def _merge_offer(self) -> tuple[int, int, int] | None:
        """What the merge port shows in the cycle of the next `step`, *g+1* of what it names."""
        if not self.ni["merge_bits"] or self.cycle + 1 not in self.granted:
            return None
        token, _ = self.granted[self.cycle + 1]
        return token.slot, token.generation, token.tries

    def _merge(self) -> None:
        """In *g+4* of a Send or BE: the first flit of its payload, and so its CRC."""
        grant = self.merging.pop(self.cycle, None)
        if grant is None:
            return
        within = (1 << min(self.ni["merge_bits"], 8 * grant.fields["length"])) - 1
        mask = self.i.merge_mask & within
        payload = [grant.payload[0] & ~mask | self.i.merge_word & mask, *grant.payload[1:]]
        for j, data in enumerate(self.n.message(grant.fields, payload)):
            at = grant.cycle + 6 + j
            self.leaving[at] = self.leaving[at]._replace(data=data)

    # 4.4 Receiver

    def _assemble(self, flit: Flit) -> Arrival:
        """What the flit on `link_i` comes to."""
        fragment = False
        if flit.valid and flit.first:
            fragment = self.worm is not None
            self.worm, self.payload_ends = [], 0
        elif not flit.valid:
            fragment, self.worm = self.worm is not None, None
            return Arrival(fragment=fragment)
        if self.worm is None:
            return Arrival()  # a stray
        offer = self._offer(flit.data)
        self.worm.append(flit.data)
        message = None
        if len(self.worm) > self.n.max_flits:
            fragment, self.worm = True, None
        elif flit.last:
            message, self.worm = self.worm, None
        return Arrival(offer, fragment, message)

    def _offer(self, data: int) -> Offer | None:
        """4.8: the next flit of the message under way, if it is payload."""
        assert self.worm is not None
        at = len(self.worm)
        if at == self.n.header_flits:
            fields = self.n.fields(self.worm)
            if fields["kind"] in (SEND, BE):
                self.payload_ends = at + self.n.payload_flits(fields["length"])
                self.payload_fifo = self._fifo_of(fields["class"])
        if self.n.header_flits <= at < self.payload_ends:
            return Offer(self.payload_fifo, data, int(at == self.payload_ends - 1))
        return None

    def _act(self, arrival: Arrival, request: Callable[[], None] | None) -> None:
        """What arrived six cycles ago acts; else the request that was chosen four cycles ago."""
        if arrival.offer:
            self.fifo[arrival.offer.fifo].offer((arrival.offer.data, arrival.offer.last))
        if arrival.fragment:
            self._show("fragment", "FRAGMENT")
        if arrival.message:
            self._receive(arrival.message)
        elif request:
            request()
        if arrival.fragment or arrival.message:
            for fifo in self.fifo:
                fifo.forget()

    def _receive(self, flits: list[int]) -> None:
        fields = self.n.fields(flits)
        drop = self._check(flits, fields)
        kind, source = fields["kind"], fields["source"]
        name = Entry(source, fields["slot"], fields["generation"], fields["incarnation"])
        answer = kind in self._answers
        uid = self._entry_uid(name._replace(source=fields["destination"]) if answer else name)
        length = fields["length"] if kind in (SEND, BE) else 0
        event = "DROP"
        if drop == DROP_NONE:
            if kind == SEND:
                event, drop = self._receive_send(name, fields)
            elif kind == BE:
                event, drop = self._receive_best_effort(fields)
            elif kind == FORGET:
                event = self._receive_forget(name, fields)
            elif kind == ACK:
                event = self._receive_ack(fields, uid)
            else:
                event = self._receive_reject(fields)
            if answer:
                self._hear(source)
        if drop in (DROP_INCARNATION, DROP_NOT_OPEN) and kind == SEND and self.ni["reject"]:
            self._queue_answer(REJECT, name, fields["try"])
        if event == "":
            return
        if drop in (DROP_RESETTING, DROP_CRC, DROP_KIND, DROP_LENGTH):
            uid = source = length = 0
        self._show("rx", event, uid=uid, peer=source, length=length, detail=drop)

    @property
    def _answers(self) -> tuple[int, ...]:
        """The kinds that answer a Send."""
        return (ACK, REJECT) if self.ni["reject"] else (ACK,)

    def _check(self, flits: list[int], fields: dict[str, int]) -> int:
        kind = fields["kind"]
        datagram = kind in (SEND, BE)
        if not self.ready:
            return DROP_RESETTING
        if not self.n.crc_is_good(flits):
            return DROP_CRC
        if kind not in (SEND, FORGET, BE, *self._answers) or (datagram and len(flits) == 1):
            return DROP_KIND
        if datagram:
            if fields["length"] > self.wire["mtu"] or len(flits) != self.n.send_flits(fields["length"]):
                return DROP_LENGTH
        elif len(flits) != self.n.control_flits:
            return DROP_LENGTH
        if fields["destination"] != self.node:
            return DROP_MISROUTED
        if fields["source"] >= self.n.nodes or fields["source"] == self.node:
            return DROP_SOURCE
        if kind in self._answers and fields["slot"] >= self.slots:
            return DROP_SLOT
        if datagram and (fields["mode"] != int(kind == BE) or fields["extension"]):
            return DROP_EXTENSION
        if datagram and fields["peer_incarnation"] not in (0, self.i.incarnation):
            return DROP_INCARNATION
        return DROP_NONE

    def _receive_send(self, name: Entry, fields: dict[str, int]) -> tuple[str, int]:
        event, drop, way = self._fate(name, fields, self.i.refusal)
        if event == "DUPLICATE":
            self._queue_ack(name, fields["try"])
        elif event == "DELIVER":
            ways = self._set(name.source, name.slot)
            ways[way] = name
            self._note_change(ways)
            self.fifo[self._fifo_of(fields["class"])].commit(self._delivered(fields))
            self._queue_ack(name, fields["try"])
            self._push_ack(AckToken(name, way, fields["try"], 0))
        return event, drop

    def _receive_best_effort(self, fields: dict[str, int]) -> tuple[str, int]:
        event, drop, _ = self._fate_of_best_effort(fields, self.i.refusal)
        if event == "DELIVER_BE":
            self.fifo[self._fifo_of(fields["class"])].commit(self._delivered(fields))
        return event, drop

    def _fate(self, name: Entry, fields: dict[str, int], refusal: int) -> tuple[str, int, int]:
        """What becomes of a sound Send that acts in this cycle; changes nothing."""
        ways = self._set(name.source, name.slot)
        here = [way for way, entry in enumerate(ways) if entry and entry[:2] == name[:2]]
        if here and ways[here[0]] == name:
            return "DUPLICATE", DROP_NONE, here[0]
        places = here or [way for way, entry in enumerate(ways) if entry is None]
        if not places:
            return "DROP", DROP_TABLE_FULL, 0
        if self.fifo[self._fifo_of(fields["class"])].full:
            return "DROP", DROP_DELIVER_FULL, 0
        if not self.acks.room(8):
            return "DROP", DROP_TIMER_FULL, 0
        reason = self._refused(fields, refusal)
        return ("DROP", reason, 0) if reason else ("DELIVER", DROP_NONE, places[0])

    def _fate_of_best_effort(self, fields: dict[str, int], refusal: int) -> tuple[str, int, int]:
        if self.fifo[self._fifo_of(fields["class"])].full:
            return "DROP", DROP_DELIVER_FULL, 0
        reason = self._refused(fields, refusal)
        return ("DROP", reason, 0) if reason else ("DELIVER_BE", DROP_NONE, 0)

    def _delivered(self, fields: dict[str, int]) -> Delivered:
        incarnation = fields["incarnation"] if self.ni["source_incarnation"] else 0
        return Delivered(fields["source"], incarnation, fields["class"], fields["length"])

    def _receive_forget(self, name: Entry, fields: dict[str, int]) -> str:
        ways = self._set(name.source, name.slot)
        if name not in ways or fields["peer_incarnation"] != self.i.incarnation:
            return "FORGET_IGNORED"
        ways[ways.index(name)] = None
        self._note_change(ways)
        return "FORGOTTEN"

    def _receive_ack(self, fields: dict[str, int], uid: int) -> str:
        number, slot = fields["slot"], self.slot[fields["slot"]]
        released = self._is_answered(fields)
        if released:
            self._complete_slot(number, ACCEPTED, NO_CAUSE, fields["peer_incarnation"])
            if self.trips and fields["try"] == slot.echo:
                self._sample(slot)
        echoed = {f: fields[f] for f in ("slot", "generation", "incarnation", "peer_incarnation", "try")}
        self._reply(Reply(FORGET, echoed | {"destination": fields["source"], "source": self.node}, uid))
        return "RELEASE" if released else "ACK_IGNORED"

    def _is_answered(self, fields: dict[str, int]) -> bool:
        """Whether an Ack or a REJECT is of a datagram that is live here."""
        slot = self.slot[fields["slot"]]
        return (
            self._is_live(fields["slot"], fields["generation"])
            and slot.record.destination == fields["source"]
            and fields["incarnation"] == self.i.incarnation
            and slot.record.mode == 0
            and slot.refused == NO_CAUSE
        )

    def _receive_reject(self, fields: dict[str, int]) -> str:
        """4.13; the event is empty where the datagram ends: that shows its own."""
        if not self._is_answered(fields):
            return "REJECT_IGNORED"
        self._end_slot(fields["slot"], UNKNOWN, RESTARTED, fields["peer_incarnation"])
        return ""

    def _reply(self, reply: Reply) -> None:
        if self.replies.level < self.replies.depth:
            self.replies.push(reply)

    def _queue_ack(self, entry: Entry, echo: int) -> None:
        self._queue_answer(ACK, entry, echo)

    def _queue_answer(self, kind: int, entry: Entry, echo: int) -> None:
        """Queue an Ack or a REJECT."""
        fields = {
            "destination": entry.source,
            "source": self.node,
            "slot": entry.slot,
            "generation": entry.generation,
            "incarnation": entry.incarnation,
            "peer_incarnation": self.i.incarnation,
            "try": echo,
        }
        self._reply(Reply(kind, fields, self._entry_uid(entry)))

    def _push_ack(self, token: AckToken) -> None:
        rung, delay = self._delay(self.acks, token.entry.source, token.tries)
        self.acks.push(rung, self.time + delay, token)

    # 4.5 Internal requests

    def _choose(self, *, acting: bool, quiet: bool) -> Callable[[], None] | None:
        """The request that acts in four cycles, unless a message does."""
        i = self.i
        if not self._may_request(acting=acting):
            return None
        if self.finish:
            finish, self.finish_taken = self.finish, True
            return lambda: self._act_finish(finish)
        if self.sends.hold:
            token = self.sends.take()
            return lambda: self._act_send_timer(token)
        if self.acks.hold:
            held = self.acks.take()
            return lambda: self._act_ack_timer(held)
        if i.cancel:
            slot, generation = i.slot, i.generation
            return lambda: self._act_cancel(slot, generation)
        if self.ni["sweep"] and i.sweep and self.step_acts < self.cycle:
            self.step_acts, self.step_source = self.cycle + 4, i.source
            return self._act_step
        if i.dump and i.quiesce and quiet:
            return lambda: None  # `dumped` says what it reads
        return None

    def _something_acts(self) -> bool:
        """4.5, point 6: whether a message or a request acts in *c* … *c+3*; to be asked when *c* begins."""
        return any(self.arrivals[i].message for i in range(4)) or any(self.requests)

    def _may_request(self, *, acting: bool) -> bool:
        """Whether a request can be chosen; ``acting``: a message acts in four cycles."""
        return self.ready and not acting

    def _is_known(self, number: int, after: int) -> bool:
        """Whether a slot is live, as those see it who know of an acceptance so many cycles later."""
        slot = self.slot[number]
        return slot.live and self.cycle >= slot.accepted + after

    def _is_live(self, number: int, generation: int) -> bool:
        """Whether a slot is live with this generation, for what acts in this cycle."""
        return self._is_known(number, 5) and self.slot[number].generation == generation

    def _end_slot(self, number: int, status: int, cause: int, peer_incarnation: int = 0) -> None:
        """*Ended* without an Ack."""
        slot = self.slot[number]
        uid = self._uid(number, slot.generation)
        self._show("rx", "GIVE_UP", uid=uid, peer=slot.record.destination, detail=cause)
        self._complete_slot(number, status, cause, peer_incarnation)

    def _complete_slot(self, number: int, status: int, cause: int, peer_incarnation: int) -> None:
        slot = self.slot[number]
        record = slot.record
        slot.live = False
        self.completions.push(
            Completion(number, slot.generation, record.destination, record.tag, status, cause, peer_incarnation)
        )

    def _act_finish(self, finish: Finish) -> None:
        if self._is_live(finish.slot, finish.generation):
            self._end_slot(finish.slot, finish.status, finish.cause)

    def _act_send_timer(self, token: SendToken) -> None:
        if not self._is_live(token.slot, token.generation):
            return
        slot = self.slot[token.slot]
        limit = slot.record.retry_limit
        if limit and token.tries >= limit:
            self._end_slot(token.slot, UNKNOWN, RETRY_LIMIT)
        elif slot.deadline is not None and self._passed(slot.deadline):
            self._end_slot(token.slot, UNKNOWN, DEADLINE)
        else:
            tries = min(token.tries + 1, 255)
            if self.repeats.level < self.slots:
                self.repeats.push(token._replace(tries=tries))
            uid = self._uid(token.slot, token.generation)
            self._show("rx", "REPEAT", uid=uid, peer=slot.record.destination, detail=tries)
            self._miss(slot.record.destination)

    def _act_ack_timer(self, token: AckToken) -> None:
        entry, limit = token.entry, self.timers["ack_limit"]
        ways = self._set(entry.source, entry.slot)
        if ways[token.way] != entry:
            return
        uid = self._entry_uid(entry)
        if limit and token.tries >= limit:
            ways[token.way] = None
            self._note_change(ways)
            self._show("rx", "ORPHAN", uid=uid, peer=entry.source)
            return
        tries = min(token.tries + 1, 255)
        self._queue_ack(entry, token.echo)
        self._push_ack(token._replace(tries=tries))
        self._show("rx", "ACK_REPEAT", uid=uid, peer=entry.source, detail=tries)

    def _act_cancel(self, number: int, generation: int) -> None:
        if number >= self.slots or not self._is_live(number, generation) or self.slot[number].refused != NO_CAUSE:
            return
        self._end_slot(number, UNKNOWN if self._counts_as_launched(number) else NEVER_SENT, CANCELLED)

    def _counts_as_launched(self, number: int) -> bool:
        """4.5, point 4."""
        slot = self.slot[number]
        return slot.judged is not None and slot.judged >= slot.accepted + 3

    # 4.6.1 Measured round trips

    def _sample(self, slot: Slot) -> None:
        assert self.trips
        q = self.n.distance(self.node, slot.record.destination)
        m = min(self.time - slot.stamp & (1 << self.n.time_bits) - 1, self.n.ceiling)
        timeout, trips = self.trips.sample(q, m), self.trips

        def use() -> None:
            trips.timeout[q] = timeout

        self._at_end_of(self.cycle + 9, use)

    # 4.14 Silent nodes

    def _miss(self, node: int) -> None:
        """A repeat to a node; a destination that is no node has no count."""
        if self.silence and node < self.n.nodes:
            self._heard(node, min(self.silence.repeats[node] + 1, self.silence.after))

    def _hear(self, node: int) -> None:
        """An Ack or a REJECT of a node."""
        if self.silence:
            self._heard(node, 0)

    def _heard(self, node: int, repeats: int) -> None:
        silence = self.silence
        assert silence
        silence.repeats[node] = repeats

        def known() -> None:
            silence.known[node] = repeats

        self._at_end_of(self.cycle + 4, known)

    # 4.16 Acceptance port

    def _refused(self, fields: dict[str, int], refusal: int) -> int:
        """The reason for which a service drops a message that nothing else drops, DROP_NONE if it does not."""
        if not self.ni["acceptance"] or self._fifo_of(fields["class"]) != 0:
            return DROP_NONE
        return (DROP_NONE, DROP_NOT_OPEN, DROP_PORT_FULL, DROP_EARLY)[refusal]

    def _arrival(self) -> tuple[int, int, int, int, int, int, int] | None:
        """The data message whose last flit was seen in the cycle before."""
        flits, first = self.arrivals[5].message, self.n.header_flits
        if not self.ni["acceptance"] or flits is None or len(flits) <= first:
            return None
        fields = self.n.fields(flits)
        if fields["kind"] not in (SEND, BE) or self._fifo_of(fields["class"]) != 0:
            return None
        payload = sum(data << i * self.n.flit_bits for i, data in enumerate(flits[first:-1]))
        word = payload & (1 << min(64, 8 * fields["length"])) - 1
        told = (fields[name] for name in ("source", "incarnation", "class", "length", "try"))
        source, incarnation, cls, length, attempt = told
        return source, incarnation, cls, length, attempt, int(fields["kind"] == BE), word

    def _is_delivered(self, refusal: int) -> bool:
        """Whether a data message is DELIVER or DELIVER_BE in the cycle of the next `step`."""
        flits = self.arrivals[0].message
        if not self.ni["acceptance"] or flits is None:
            return False
        fields = self.n.fields(flits)
        if self._check(flits, fields) != DROP_NONE or fields["kind"] not in (SEND, BE):
            return False
        if self._fifo_of(fields["class"]) != 0:
            return False
        if fields["kind"] == BE:
            return self._fate_of_best_effort(fields, refusal)[0] == "DELIVER_BE"
        name = Entry(fields["source"], fields["slot"], fields["generation"], fields["incarnation"])
        return self._fate(name, fields, refusal)[0] == "DELIVER"

    # 4.17 Sweep

    def _note_change(self, ways: list[Entry | None]) -> None:
        """An entry of a set is written or erased."""
        self.changes.append((self.cycle, ways))

    def _found(self) -> tuple[bool, int | None]:
        """What a step finds in its set: whether that has just changed, and the lowest way of its source."""
        ways = self.table[self.index]
        changed = any(self.cycle - 4 <= cycle < self.cycle and where is ways for cycle, where in self.changes)
        of_source = [way for way, entry in enumerate(ways) if entry and entry.source == self.step_source]
        return changed, of_source[0] if of_source else None

    def _ends_sweep(self) -> bool:
        """Whether `sweep.ready` is 1 in the cycle of the next `step`."""
        last = self.index == len(self.table) - 1
        return self.step_acts == self.cycle and last and self._found() == (False, None)

    def _act_step(self) -> None:
        changed, way = self._found()
        if changed:
            return
        if way is None:
            self.index = (self.index + 1) % len(self.table)
            return
        ways = self.table[self.index]
        entry = ways[way]
        assert entry
        ways[way] = None
        self._note_change(ways)
        self._show("rx", "SWEPT", uid=self._entry_uid(entry), peer=entry.source)

    # 4.7 Receive table

    def _entry_uid(self, entry: Entry) -> int:
        return self.n.uid(entry.source, entry.incarnation, entry.slot, entry.generation)

    def _set(self, source: int, slot: int) -> list[Entry | None]:
        width = self.ni["sets"].bit_length() - 1
        key = source << dict(self.n.common)["slot"] | slot
        h, index = key ^ key >> 3 ^ key >> 7, 0
        while h and width:
            index ^= h & (1 << width) - 1
            h >>= width
        return self.table[index]

    # 4.8 Deliver FIFOs

    def _fifo_of(self, cls: int) -> int:
        """The deliver FIFO of a class; 0 is the one for data."""
        top = (1 << self.wire["class_bits"]) - 1
        return top - cls + 1 if self.n.is_control(cls) else 0

    def _take(self) -> None:
        lanes = ["take", *take_lanes(self.fifos - 1)]
        for lane, fifo, (record_ready, data_ready) in zip(lanes, self.fifo, self.i.deliver_ready, strict=True):
            if fifo.records.output is not None and record_ready:
                record: Delivered = fifo.records.pop()
                self._show(lane, "TAKE", peer=record.source, length=record.length, detail=record.incarnation)
            if fifo.data.output is not None and data_ready:
                fifo.data.pop()

    # 4.9 Completions and free slots

    def _complete(self) -> None:
        done: Completion | None = self.completions.output
        oldest = self.quarantine[0] if self.quarantine else None
        rested = False
        if done is None or not self.i.completion_ready:
            done = None
        else:
            self.completions.pop()
            self.busy -= 1
            uid = self._uid(done.slot, done.generation)
            self._show(
                "complete", "COMPLETE", uid=uid, peer=done.destination, detail=done.status << 4 | done.cause,
                extra=done.tag,
            )  # fmt: skip
            after = done.generation + 1 & (1 << self.wire["generation_bits"]) - 1
            rested = done.status == UNKNOWN and done.cause != BEST_EFFORT and self.timers["quarantine"] > 0
            if rested:
                self.quarantine.append((self.time + self.timers["quarantine"], done.slot, after))
            else:
                self._free(done.slot, after)
        if self._quarantine_moves(done, rested) and oldest and self._passed(oldest[0]):
            self.quarantine.popleft()
            self._free(*oldest[1:])

    def _quarantine_moves(self, done: Completion | None, rested: bool) -> bool:
        """Whether the quarantine may move: no completion pushes to the free queue."""
        return done is None or rested

    # 4.10 Idle

    def _idle(self) -> bool:
        return (
            self.ready
            and self.busy == 0
            and not any(entry for ways in self.table for entry in ways)
            and self.replies.empty
            and self.cycle >= max(self.next_grant, self.last_worm_over)
            and self.worm is None
            and not any(arrival.message for arrival in self.arrivals)
            and all(fifo.empty for fifo in self.fifo)
        )

    def _flags(self) -> int:
        """Word 12 from bit 3 on."""
        fifo = self.fifo[0]
        record, beat = fifo.records.output, fifo.data.output
        return (
            int(self._idle())
            | self.data.ready << 1
            | self.data.data_ready << 2
            | (record is not None) << 3
            | (beat is not None) << 4
            | (beat[1] if beat else 0) << 5
            | (self.completions.output is not None) << 6
            | (self.control is not None and self.control.ready) << 7
            | (self.control is not None and self.control.data_ready) << 8
        )


# 8 Stimulus words


def stimulus_words(numbers: Numbers) -> int:
    """Stimulus words of a node and cycle."""
    ni = numbers.section["ni"]
    return 6 + 4 * (ni["control_slots"] > 0) + 2 * (ni["merge_bits"] > 0) + ni["acceptance"] + ni["sweep"]


def from_stimulus(
    numbers: Numbers,
    words: list[int],
    flit: Flit,
    *,
    incarnation: int,
    stalled: bool = False,
    absent: bool = False,
    deliver_ready: list[tuple[int, int]] | None = None,
    completion_ready: int | None = None,
) -> Inputs:
    """The inputs that stimulus words stand for.

    ``stalled`` and ``absent`` are by schedule (section 6); ``deliver_ready`` and ``completion_ready`` are for hosts
    that take in their own way, whatever the words say.
    """
    wire, ni = numbers.section["wire"], numbers.section["ni"]

    def fields(word: int, *widths: int) -> list[int]:
        found = []
        for width in widths:
            found.append(word & (1 << width) - 1)
            word >>= width
        return found

    def cut(value: int, width: int) -> int:
        return value & (1 << width) - 1

    def offered(send: int, send_data: int, record: int, limits: int, low: int, high: int) -> Offered:
        destination, cls, mode, length, tag = fields(record, 16, 8, 8, 16, 16)
        deadline, retry_limit, expect = fields(limits, 32, 8, 8)
        taken = Record(
            destination=destination,
            cls=cut(cls, wire["class_bits"]),
            mode=mode,
            length=length,
            tag=cut(tag, wire["tag_bits"]),
            deadline=cut(deadline, ni["deadline_bits"]),
            retry_limit=retry_limit,
            expect=cut(expect, wire["incarnation_bits"]),
        )
        return Offered(send, send_data, taken, cut(low | high << 64, numbers.flit_bits))

    bits = fields(words[0], *[1] * 9)
    send, send_data, cancel, quiesce, link_disable, deliver_stall, completion_stall, control, control_data = bits
    streams_stall, (slot, generation) = words[0] >> 16, fields(words[5], 16, 20)
    control_words, rest = words[6:10], words[10 if ni["control_slots"] else 6 :]
    merge_words, rest = (rest[:2], rest[2:]) if ni["merge_bits"] else ([0, 0], rest)
    refusal, rest = (rest[0], rest[1:]) if ni["acceptance"] else (0, rest)
    sweep, source = fields(rest[0], 1, 16) if ni["sweep"] else (0, 0)
    if deliver_ready is None:
        taking = not stalled and not deliver_stall
        streams = [
            (streams_stall >> 2 * i & 1, streams_stall >> 2 * i + 1 & 1) for i in range(1 + ni["control_classes"])
        ]
        deliver_ready = [(int(taking and not record), int(taking and not data)) for record, data in streams]
    if completion_ready is None:
        completion_ready = 1 - completion_stall
    return Inputs(
        flit=flit,
        data=offered(send, send_data, *words[1:5]),
        cancel=cancel,
        quiesce=quiesce,
        link_enable=int(not link_disable and not absent),
        slot=cut(slot, derived.bits(ni["slots"] - 1)),
        generation=cut(generation, wire["generation_bits"]),
        incarnation=incarnation,
        deliver_ready=deliver_ready,
        completion_ready=completion_ready,
        control=offered(control, control_data, *control_words) if ni["control_slots"] else Offered(),
        merge_word=merge_words[0],
        merge_mask=merge_words[1],
        refusal=cut(refusal, 2),
        sweep=sweep,
        source=cut(source, dict(numbers.common)["source"]),
    )
