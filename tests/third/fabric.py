"""Sections 2 and 3 of the cycle contract: links with their faults, routers, and how they are joined.

Written from `docs/` alone, as `ni.py`.
"""

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from tests.third import derived
from tests.third.derived import Numbers, scale
from tests.third.ni import ACK, FORGET, REJECT, SEND, Flit, Queue

FORWARD, DISCARD_BUSY, DISCARD_CONTENTION, DISCARD_UP, DISCARD_ROUTE = 32, 33, 34, 35, 36
STRAY, FRAGMENT, OVERLONG, LOST, DEAD, FLIP, DISCARD_FULL = 37, 38, 39, 40, 41, 42, 43

#: Cycles from when a worm is stored in a pool until an output can take it as its next one (3.2).
WAITS = 5
#: Cycles for which a head on the same input is behind one that was refused (3.2).
BEHIND = 5

UP = -1
GAP = Flit()


class Link:
    """Section 2: the fault element of a link; ``dead`` are the cycles in which it is dead with a node (section 6)."""

    def __init__(self, numbers: Numbers, number: int, dead: Iterable[tuple[float, float]] = ()):
        faults, seed = numbers.section["faults"], numbers.section["run"]["seed"]
        self.flit_bits = numbers.flit_bits
        self.loss_threshold = round(faults["loss"] * 65536)
        self.flip_threshold = round(faults["flip"] * 2**24)
        self.losses, self.flips = (derived.seed_for(seed, kind, number) for kind in (3, 4))
        self.spans = [*dead, *((f["start"], f["end"]) for f in faults.get("links", ()) if f["link"] == number)]
        self.swallowing = False

    def step(self, cycle: int, flit: Flit) -> tuple[Flit, int]:
        """What reaches the receiver, and the event (0: none)."""
        if any(start <= cycle < end for start, end in self.spans):
            return GAP, DEAD if flit.valid and flit.first else 0
        if self.loss_threshold and flit.valid:
            if flit.first:
                self.losses = derived.draw(self.losses)
                self.swallowing = self.losses & 0xFFFF < self.loss_threshold
                if self.swallowing:
                    return GAP, LOST
            elif self.swallowing:
                return GAP, 0
        if self.flip_threshold and flit.valid:
            self.flips = derived.draw(self.flips)
            if self.flips & 0xFFFFFF < self.flip_threshold:
                at = scale(self.flips >> 24, 8, self.flit_bits + 2)
                if at == self.flit_bits:
                    return flit._replace(first=1 - flit.first), FLIP
                if at > self.flit_bits:
                    return flit._replace(last=1 - flit.last), FLIP
                return flit._replace(data=flit.data ^ 1 << at), FLIP
        return flit, 0


class Shape:
    """The topologies of section 3: ports of routers, routes, and what is joined to what."""

    def __init__(self, numbers: Numbers):
        t = numbers.section["topology"]
        self.nodes, self.kind = numbers.nodes, t["kind"]
        self.k, self.n, self.columns, self.rows = t["arity"], t["levels"], t["columns"], t["rows"]
        self.across = self.k ** (self.n - 1)
        self.routers = {
            "wire": 0, "crossbar": 1, "fly": self.n * self.across, "tree": self.n * self.across,
            "mesh": self.columns * self.rows,
        }[self.kind]  # fmt: skip
        #: Output (router, port) → input (router, port); a node n is the port ("node", n).
        self.joins: dict[tuple, tuple] = {}
        if self.kind == "wire":
            self.joins = {("node", 0): ("node", 1), ("node", 1): ("node", 0)}
        else:
            getattr(self, f"_join_{self.kind}")()
        between = sorted(out for out, to in self.joins.items() if out[0] != "node" and to[0] != "node")
        entering = sorted((to[1], out) for out, to in self.joins.items() if to[0] == "node")
        #: The output that each link leaves, by number (9.1).
        self.links = [("node", n) for n in range(self.nodes)]
        if self.kind != "wire":
            self.links += [out for _, out in entering] + between

    def ports(self, r: int) -> int:
        """How many ports a router has."""
        if self.kind == "tree":
            return 2 * self.k if r // self.across < self.n - 1 else self.k
        return {"crossbar": self.nodes, "fly": self.k, "mesh": 5}[self.kind]

    def up_ports(self, r: int) -> int:
        return self.ports(r) - self.k if self.kind == "tree" else 0

    def _join(self, a: tuple, b: tuple) -> None:
        self.joins[a], self.joins[b] = b, a

    def _join_crossbar(self) -> None:
        for n in range(self.nodes):
            self._join(("node", n), (0, n))

    def _join_fly(self) -> None:
        k, n = self.k, self.n
        for y in range(self.nodes):
            self.joins["node", y] = y // k, y % k
            for s in range(n - 1):
                high = k ** (n - 1 - s)
                line = y + (y // high % k - y % k) * (1 - high)
                self.joins[s * self.across + y // k, y % k] = (s + 1) * self.across + line // k, line % k
            self.joins[(n - 1) * self.across + y // k, y % k] = "node", y

    def _join_tree(self) -> None:
        k = self.k
        for p in range(self.nodes):
            self._join(("node", p), (p // k, p % k))
        for level in range(self.n - 1):
            for w in range(self.across):
                digit = w // k**level % k
                for j in range(k):
                    above = (level + 1) * self.across + w + (j - digit) * k**level
                    self._join((level * self.across + w, k + j), (above, digit))

    def _join_mesh(self) -> None:
        for r in range(self.routers):
            self._join(("node", r), (r, 0))
            if r % self.columns < self.columns - 1:
                self._join((r, 1), (r + 1, 2))
            if r // self.columns < self.rows - 1:
                self._join((r, 3), (r + self.columns, 4))

    def route(self, r: int, i: int, destination: int) -> int | None:
        """What a head asks for that came in on port ``i``: an output, `UP`, or None."""
        if destination >= self.nodes:
            return None
        if self.kind == "crossbar":
            return None if destination == i else destination
        if self.kind == "fly":
            return destination // self.k ** (self.n - 1 - r // self.across) % self.k
        if self.kind == "tree":
            level, w = divmod(r, self.across)
            if w // self.k**level == destination // self.k ** (level + 1):
                down = destination // self.k**level % self.k
                return None if down == i else down
            return UP if i < self.k else None
        x, y = r % self.columns, r // self.columns
        to_x, to_y = destination % self.columns, destination // self.columns
        if to_x != x:
            out = 1 if to_x > x else 2
            return None if i in (out, 3, 4) else out
        out = 0 if to_y == y else 3 if to_y > y else 4
        return None if out == i else out


class Input(NamedTuple):
    """State of a router's input; ``output`` is None unless it forwards."""

    output: int | None = None
    swallow: bool = False
    count: int = 0


def of_head(event: int, head: Flit, detail: int = 0) -> int:
    """The trace word of what becomes of a head (section 7)."""
    return event | detail << 8 | (head.data & (1 << 48) - 1) << 16


def cut(x: int, n: int) -> int:
    """The low bits of ``x``, as many as n − 1 has."""
    return x & (1 << derived.bits(n - 1)) - 1


class Router:
    """Section 3."""

    def __init__(self, numbers: Numbers, shape: Shape, number: int):
        self.n, self.shape, self.number, self.max_flits = numbers, shape, number, numbers.max_flits
        self.ports, self.up_ports = shape.ports(number), shape.up_ports(number)
        self.chance = derived.seed_for(numbers.section["run"]["seed"], 2, number)
        self.inputs = [Input()] * self.ports
        self.held: list[bool] = [False] * self.ports
        self.pipeline = deque([[GAP] * self.ports for _ in range(numbers.section["router"]["latency"])])

    @property
    def lanes(self) -> int:
        """How many trace words it has."""
        return self.ports

    @property
    def outputs(self) -> list[Flit]:
        """What the outputs show in the cycle of the next `step`."""
        return self.pipeline[0]

    def step(self, flits: list[Flit]) -> list[int]:
        """One cycle, with the flits after their links; returns a trace word for each input."""
        return self._forward(flits)

    def _asks(self, i: int, head: Flit) -> int | None:
        """What a head asks for."""
        return self.shape.route(self.number, i, self.n.fields([head.data])["destination"])

    def _stays(self, i: int, event: int, head: Flit) -> bool:
        """Whether a head that got no output stays in its queue (3.1), or goes to a buffer (3.2)."""
        return False

    def _forward(self, flits: list[Flit]) -> list[int]:
        """The rules of section 3 for the flits presented to the inputs."""
        words, passed, held = [0] * self.ports, [GAP] * self.ports, list(self.held)
        asked: dict[int, int | None] = {}
        for i, (flit, state) in enumerate(zip(flits, self.inputs, strict=True)):
            if state.output is not None and (not flit.valid or flit.first):
                held[state.output] = False  # a fragment
            if flit.valid and flit.first:
                asked[i] = self._asks(i, flit)
            elif not flit.valid:
                words[i] = FRAGMENT if state.output is not None else 0
                self.inputs[i] = Input()
            elif state.output is not None:
                over = not flit.last and state.count + 1 == self.max_flits
                words[i] = OVERLONG if over else 0
                passed[state.output] = flit
                if flit.last or over:
                    held[state.output] = False
                    self.inputs[i] = Input(swallow=over)
                else:
                    self.inputs[i] = state._replace(count=state.count + 1)
            elif state.swallow:
                self.inputs[i] = Input(swallow=not flit.last)
            else:
                words[i] = STRAY
        for i, (event, o) in self._decide(asked).items():
            flit = flits[i]
            if event != FORWARD and self._stays(i, event, flit):
                self.inputs[i] = Input()
                continue
            words[i] = of_head(event, flit, o or 0)
            self.inputs[i] = Input(swallow=not flit.last)
            if event == FORWARD:
                assert o is not None
                passed[o] = flit
                over = not flit.last and self.max_flits == 1
                held[o] = not flit.last and not over
                self.inputs[i] = Input(o, False, 1) if held[o] else Input(swallow=over)
        self.held = held
        self.pipeline.popleft()
        self.pipeline.append(passed)
        return words

    def _decide(self, asked: dict[int, int | None]) -> dict[int, tuple[int, int | None]]:
        """The fate of each head: its event, and the output that it got."""
        fate: dict[int, tuple[int, int | None]] = {}
        self.chance = derived.draw(self.chance)
        d, up = self.chance, [i for i, route in asked.items() if route == UP]
        for o in range(self.ports):
            heads = [i for i, route in asked.items() if route == o]
            w = cut(d & 0xFF, self.ports)
            winner = min(heads, key=lambda i, w=w: i ^ w, default=None)
            for i in heads:
                if self.held[o]:
                    fate[i] = DISCARD_BUSY, None
                else:
                    fate[i] = (FORWARD, o) if i == winner else (DISCARD_CONTENTION, None)
        if up:
            h, u = cut(d >> 8 & 0xFF, self.ports), cut(d >> 16 & 0xFF, self.up_ports)
            first = self.ports - self.up_ports
            free = [first + j for j in sorted(range(self.up_ports), key=lambda j: j ^ u) if not self.held[first + j]]
            for place, i in enumerate(sorted(up, key=lambda i: i ^ h)):
                fate[i] = (FORWARD, free[place]) if place < len(free) else (DISCARD_UP, None)
        return fate | {i: (DISCARD_ROUTE, None) for i, route in asked.items() if route is None}


class PinnedRouter(Router):
    """A router in which worms can wait: an up-port is one for each pair of nodes and slot (3.1)."""

    def __init__(self, numbers: Numbers, shape: Shape, number: int):
        super().__init__(numbers, shape, number)
        self.salt = derived.seed_for(numbers.section["run"]["seed"], 7, 0) & 0xFFFF

    def _asks(self, i: int, head: Flit) -> int | None:
        route = super()._asks(i, head)
        if route != UP:
            return route
        fields, widths = self.n.fields([head.data]), dict(self.n.common)
        a, b = fields["source"], fields["destination"]
        if fields["kind"] == ACK:
            a, b = b, a
        node_bits, slot_bits = widths["destination"], widths["slot"]
        key = a | b << node_bits | fields["slot"] << 2 * node_bits
        crc = derived.CRC16.of_bits(key, 2 * node_bits + slot_bits, self.salt)
        turn = 5 * (self.number // self.shape.across) % 16
        h = (crc >> turn | crc << 16 - turn) & 0xFF
        return self.ports - self.up_ports + scale(h, 8, self.up_ports)


class Back:
    """The half of an input that takes what arrives, and the queue behind it (3.1)."""

    def __init__(self, depth: int):
        self.queue = Queue(depth)
        self.state, self.count, self.waiting = "NONE", 0, 0
        self.refused = 0  # how often the head in the output register was

    def presents(self, flit: Flit) -> bool:
        """Whether the flit that arrives is presented to the front."""
        return bool(flit.valid) and self.queue.empty and (flit.first == 1 or self.state == "DIRECT")


class QueuedRouter(PinnedRouter):
    """Section 3.1: every input has a queue for worms."""

    def __init__(self, numbers: Numbers, shape: Shape, number: int):
        super().__init__(numbers, shape, number)
        router = numbers.section["router"]
        self.worms, self.max_wait = router["queue"], router["max_wait"]
        self.backs = [Back(self.worms * self.max_flits) for _ in range(self.ports)]

    @property
    def lanes(self) -> int:
        return 2 * self.ports

    def step(self, flits: list[Flit]) -> list[int]:
        presented = [
            back.queue.output or (flit if back.presents(flit) else GAP)
            for back, flit in zip(self.backs, flits, strict=True)
        ]
        self.stayed: set[int] = set()
        words = self._forward(presented)
        words += [self._take(i, back, flit) for i, (back, flit) in enumerate(zip(self.backs, flits, strict=True))]
        for back in self.backs:
            back.queue.tick()
        return words

    def _stays(self, i: int, event: int, head: Flit) -> bool:
        back = self.backs[i]
        stays = event != DISCARD_ROUTE and (back.queue.output is None or back.refused < self.max_wait)
        if stays:
            self.stayed.add(i)
        return stays

    def _take(self, i: int, back: Back, flit: Flit) -> int:
        """The end of a cycle for the back; returns its trace word."""
        waiting, output, word = back.waiting, back.queue.output, 0
        if output is not None:
            if i in self.stayed:
                back.refused += 1
            else:
                back.queue.pop()
                back.waiting -= output.first
                back.refused = 0
        if not flit.valid:
            back.state = "NONE"
        elif flit.first and back.queue.empty and i not in self.stayed:
            back.state = "DIRECT"
        elif flit.first and (back.queue.empty or waiting < self.worms):
            back.queue.push(flit)
            back.waiting, back.state, back.count = back.waiting + 1, "STORE", 1
        elif flit.first:
            word, back.state = of_head(DISCARD_FULL, flit), "SWALLOW"
        elif back.state == "STORE":
            back.queue.push(flit)
            back.count += 1
            back.state = "SWALLOW" if back.count == self.max_flits else "STORE"
        elif back.state == "NONE":
            word = STRAY
        if flit.last:
            back.state = "NONE"
        return word


class Buffer:
    """A buffer of a pool (3.2), with a worm in it unless it is FREE."""

    def __init__(self, number: int):
        self.number = number
        self.free()

    def free(self) -> None:
        self.state, self.output, self.stored, self.left = "FREE", 0, 0, 0
        self.flits: list[Flit] = []

    def take(self, head: Flit, output: int, cycle: int) -> None:
        self.state, self.output, self.stored, self.flits = "WAITING", output, cycle, [head]


class PooledRouter(PinnedRouter):
    """Section 3.2: the inputs share buffers for worms."""

    def __init__(self, numbers: Numbers, shape: Shape, number: int):
        super().__init__(numbers, shape, number)
        settings = numbers.section["router"]
        self.buffers = [Buffer(b) for b in range(settings["pool"])]
        self.climbs = settings["pool_path"] == "any"
        self.control_first = settings["control_first"]
        #: The buffer of each input in STORE.
        self.storing: dict[int, Buffer] = {}
        #: By input and output the latest cycle in which a head was refused.
        self.missed: dict[tuple[int, int], int] = {}
        #: The next worm of each output that has one.
        self.next: dict[int, Buffer] = {}
        #: Worms that begin to leave by an up-port in this cycle.
        self.given: dict[int, Buffer] = {}
        self.cycle = 0

    @property
    def lanes(self) -> int:
        return 2 * self.ports

    def step(self, flits: list[Flit]) -> list[int]:
        # What leaves is decided on the start of the cycle.
        self.taken = [held or o in self.next for o, held in enumerate(self.held)]
        first_up = self.ports - self.up_ports
        if any(self.cycle >= buffer.stored + WAITS for buffer in self._waiting(UP)):
            self.taken[first_up:] = [True] * self.up_ports
        self.unused = self._free()
        given = self._give() if self.climbs and self.cycle % 2 else {}
        leaving = [self._leaves(o) for o in range(self.ports)]
        for o in range(self.ports):
            if self.next.get(o) in (None, leaving[o]):
                first = self._first(o)
                self.next.pop(o, None)
                if first is not None:
                    self.next[o] = first
        for o, buffer in self.given.items():
            buffer.output = o
        words = self._forward([self._store(i, flit) for i, flit in enumerate(flits)])
        for i, buffer in list(self.storing.items()):
            if buffer.flits[-1].last or len(buffer.flits) == self.max_flits:
                self.inputs[i] = Input(swallow=not buffer.flits[-1].last)
                del self.storing[i]
        words += [self._leave(buffer) if buffer else 0 for buffer in leaving]
        self.given = given
        self.cycle += 1
        return words

    def _behind(self, i: int, o: int) -> bool:
        """Whether a head would overtake one that came on its input."""
        return (i, o) in self.missed and self.cycle - self.missed[i, o] <= BEHIND

    def _give(self) -> dict[int, Buffer]:
        """By up-port the worm that begins to leave there in the next cycle."""
        turn = cut(derived.draw(self.chance) >> 16 & 0xFF, self.up_ports)
        order = [self.ports - self.up_ports + j for j in sorted(range(self.up_ports), key=lambda j: j ^ turn)]
        asking = [buffer for buffer in self._waiting(UP) if self.cycle >= buffer.stored + WAITS]
        asking = [buffer for buffer in asking if buffer not in self.given.values()]
        return dict(zip((o for o in order if not self.held[o]), sorted(asking, key=self._order), strict=False))

    def _free(self) -> list[Buffer]:
        """The buffers that refused heads take, in this order."""
        return [buffer for buffer in self.buffers if buffer.state == "FREE"]

    def _first(self, o: int) -> Buffer | None:
        """The worm that an output takes as its next one, of those WAITING."""
        return min(self._asking(o), key=self._order, default=None)

    def _waiting(self, o: int) -> list[Buffer]:
        return [buffer for buffer in self.buffers if buffer.state == "WAITING" and buffer.output == o]

    def _asking(self, o: int) -> list[Buffer]:
        asking = [buffer for buffer in self._waiting(o) if self.cycle >= buffer.stored + WAITS]
        return [buffer for buffer in asking if buffer is not self.next.get(o)]

    def _order(self, buffer: Buffer) -> tuple[int, bool, int]:
        """Control goes as if it had been stored so many cycles before."""
        kind = self.n.fields([buffer.flits[0].data])["kind"] if self.control_first else SEND
        control = kind in (ACK, FORGET, REJECT)
        return buffer.stored - control * self.control_first, control, buffer.number

    def _asks(self, i: int, head: Flit) -> int | None:
        return Router._asks(self, i, head) if self.climbs else super()._asks(i, head)

    def _leaves(self, o: int) -> Buffer | None:
        """The buffer whose next flit passes to an output in this cycle, or whose worm ends for want of one."""
        for buffer in self.buffers:
            if buffer.state == "LEAVING" and buffer.output == o:
                return buffer
        if o in self.given:
            return self.given[o]
        return None if self.held[o] else self.next.get(o)

    def _store(self, i: int, flit: Flit) -> Flit:
        """What the rules of section 3 have to do with a flit: nothing if it goes behind a worm that is stored."""
        if i not in self.storing:
            return flit
        if flit.valid and not flit.first:
            self.storing[i].flits.append(flit)
            return GAP
        del self.storing[i]
        return flit

    def _decide(self, asked: dict[int, int | None]) -> dict[int, tuple[int, int | None]]:
        self.chance = derived.draw(self.chance)
        w = cut(self.chance & 0xFF, self.ports)
        fate: dict[int, tuple[int, int | None]] = {}
        given, unused = set(), list(self.unused)
        refused: list[tuple[int, int]] = []
        d, first_up = self.chance, self.ports - self.up_ports
        h, u = cut(d >> 8 & 0xFF, self.ports), cut(d >> 16 & 0xFF, self.up_ports) if self.up_ports else 0
        free = [o for o in sorted(range(first_up, self.ports), key=lambda o: o - first_up ^ u) if not self.taken[o]]
        climbs = dict(zip(sorted((i for i, o in asked.items() if o == UP), key=lambda i: i ^ h), free, strict=False))
        for i in sorted(asked, key=lambda i: i ^ w):
            o = asked[i]
            if o is None:
                fate[i] = DISCARD_ROUTE, None
            elif i in climbs:
                fate[i] = FORWARD, climbs[i]
            elif o == UP or self.taken[o] or o in given:
                refused.append((i, o))
            else:
                given.add(o)
                if self._behind(i, o):
                    refused.append((i, o))
                else:
                    fate[i] = FORWARD, o
        self.kept: dict[int, tuple[Buffer, int]] = {}
        for i, o in refused:
            self.missed[i, o] = self.cycle
            fate[i] = DISCARD_FULL, None
            if unused:
                self.kept[i] = unused.pop(0), o
        return fate

    def _stays(self, i: int, event: int, head: Flit) -> bool:
        if i not in self.kept:
            return False
        buffer, o = self.kept[i]
        buffer.take(head, o, self.cycle)
        self.storing[i] = buffer
        return True

    def _leave(self, buffer: Buffer) -> int:
        """The next flit of a buffer; returns the trace word of its output."""
        o, number = buffer.output, buffer.left
        if number == len(buffer.flits):
            self.held[o] = False
            buffer.free()
            return FRAGMENT
        flit = buffer.flits[number]
        self.pipeline[-1][o] = flit
        buffer.state, buffer.left = "LEAVING", number + 1
        word = of_head(FORWARD, flit, o) if number == 0 else 0
        over = not flit.last and buffer.left == self.max_flits
        self.held[o] = not flit.last and not over
        if not self.held[o]:
            buffer.free()
        return word or (OVERLONG if over else 0)


def router(numbers: Numbers, shape: Shape, number: int) -> Router:
    """The router of a configuration."""
    settings = numbers.section["router"]
    made = QueuedRouter if settings["queue"] else PooledRouter if settings["pool"] else Router
    return made(numbers, shape, number)
