"""A router with input queues in plain Python, from the cycle contract (sections 1, 3 and 3.1) alone."""

from collections import deque
from typing import NamedTuple

from lethe.spec.events import ROUTER_COUNTED, Event, RouterCounter
from lethe.spec.pin import key_hash, pinned
from lethe.spec.random import advance
from lethe.spec.topology import NOWHERE, UP, Topology
from lethe.spec.trace import HEAD
from lethe.spec.wire import Wire


class Flit(NamedTuple):
    first: bool
    last: bool
    data: int

    @property
    def bits(self) -> int:
        """The flit as it is on a link."""
        return 1 | self.first << 1 | self.last << 2 | self.data << 3


class FlitQueue:
    """``Queue(depth)`` of section 1; what was pushed and whether the output was popped is told at the cycle's end."""

    def __init__(self, depth: int):
        self.depth = depth
        self.memory: deque[Flit] = deque()
        self.output: Flit | None = None
        self.fullest = 0

    @property
    def empty(self) -> bool:
        return not self.memory and self.output is None

    def end_cycle(self, pushed: Flit | None, popped: bool) -> None:
        assert not popped or self.output is not None
        assert pushed is None or len(self.memory) < self.depth, "the queue overflows"
        if popped:
            self.output = None
        if self.output is None and self.memory:
            self.output = self.memory.popleft()
        if pushed is not None:
            self.memory.append(pushed)
        self.fullest = max(self.fullest, len(self.memory))


class Input:
    """The state of one input: back, queue, front."""

    def __init__(self, depth: int):
        self.queue = FlitQueue(depth)
        self.back, self.back_count, self.waiting = "NONE", 0, 0
        self.front, self.front_count, self.patience = "IDLE", 0, 0
        self.output = 0  # of a worm in FORWARD


class Router:
    """One router; `step` is one cycle.

    Parameters
    ----------
    graph, number : the fabric, and which of its routers
    wire : format of the flits
    worms, max_wait : ``router.queue`` (at least 1) and ``router.max_wait``
    seed, salt : of its generator, and of the run
    """

    def __init__(self, graph: Topology, number: int, wire: Wire, worms: int, max_wait: int, seed: int, salt: int):
        self.graph, self.number, self.wire = graph, number, wire
        self.worms, self.max_wait, self.state, self.salt = worms, max_wait, seed, salt
        self.ports = graph.ports(number)
        self.inputs = [Input(worms * wire.max_flits) for _ in range(self.ports)]
        self.held = [False] * self.ports
        self.cycle = 0

    def _output(self, port: int, head: Flit) -> int | None:
        """The one output that a head asks for."""
        fields, at = {}, 0
        for field in self.wire.common[:4]:
            fields[field.name] = head.data >> at & (1 << field.width) - 1
            at += field.width
        assert list(fields) == ["kind", "destination", "source", "slot"]
        route = self.graph.route(self.number, port, fields["destination"])
        if route == NOWHERE:
            return None
        if route == UP:
            level, up_ports = self.graph.level(self.number), self.graph.up_ports(self.number)
            return self.ports - up_ports + pinned(key_hash(self.wire, self.salt, **fields), level, up_ports)
        return route

    def step(self, arriving: list[Flit | None]) -> tuple[list[Flit | None], list[tuple[int, int, int]], list[int]]:
        """One cycle: what enters each output's register, (event, detail, head's data) per lane, and the counters."""
        presented = [self._presented(each, flit) for each, flit in zip(self.inputs, arriving, strict=True)]
        outputs: dict[int, int | None] = {
            i: self._output(i, flit) for i, flit in enumerate(presented) if flit is not None and flit.first
        }
        winners, busy = self._arbitrate({i: o for i, o in outputs.items() if o is not None})

        passing: list[Flit | None] = [None] * self.ports
        lanes = [(0, 0, 0)] * (2 * self.ports)
        counts = [0] * len(RouterCounter)
        held = list(self.held)
        for i, (each, flit) in enumerate(zip(self.inputs, presented, strict=True)):
            queued = each.queue.output is not None
            stays = False
            if flit is None:
                if each.front == "FORWARD":
                    held[each.output] = False
                    lanes[i] = (Event.FRAGMENT, 0, 0)
                each.front = "IDLE"
            elif flit.first:
                if each.front == "FORWARD":
                    held[each.output] = False
                    counts[RouterCounter.FRAGMENT] += 1
                stays = self._head(i, each, flit, queued, outputs[i], winners, busy, passing, held, lanes)
            elif each.front == "FORWARD":
                each.front_count += 1
                passing[each.output] = flit
                if flit.last:
                    held[each.output], each.front = False, "IDLE"
                elif each.front_count == self.wire.max_flits:
                    held[each.output], each.front = False, "SWALLOW"
                    lanes[i] = (Event.OVERLONG, 0, 0)
            elif each.front == "SWALLOW":
                if flit.last:
                    each.front = "IDLE"
            else:
                lanes[i] = (Event.STRAY, 0, 0)
            each.patience = each.patience + 1 if queued and stays else 0
            lanes[self.ports + i] = self._back(each, arriving[i], flit, queued, stays)
        self.held = held
        self.cycle += 1
        for counter, event in ROUTER_COUNTED.items():
            counts[counter] += sum(lane[0] == event for lane in lanes)
        return passing, lanes, counts

    @staticmethod
    def _presented(each: Input, flit: Flit | None) -> Flit | None:
        if each.queue.output is not None:
            return each.queue.output
        if flit is not None and (each.queue.empty if flit.first else each.back == "DIRECT"):
            return flit
        return None

    def _arbitrate(self, asking: dict[int, int]) -> tuple[set[int], set[int]]:
        """The inputs whose heads win, and those that are refused because their output is held."""
        self.state = advance(self.state)
        turn = self.state & 0xFF & (1 << (self.ports - 1).bit_length()) - 1
        winners, busy = set(), set()
        for o in set(asking.values()):
            contenders = [i for i in asking if asking[i] == o]
            if self.held[o]:
                busy.update(contenders)
            else:
                winners.add(min(contenders, key=lambda i: i ^ turn))
        return winners, busy

    def _head(self, i, each, flit, queued, output, winners, busy, passing, held, lanes) -> bool:
        """The fate of a presented head; whether it stays."""
        shown = flit.data & (1 << HEAD.bits) - 1
        if i in winners:
            lanes[i] = (Event.FORWARD, output, shown)
            passing[output] = flit
            each.output, each.front_count = output, 1
            each.front = "IDLE" if flit.last else "FORWARD"
            held[output] = not flit.last
            return False
        if output is None:
            lanes[i] = (Event.DISCARD_ROUTE, 0, shown)
        elif queued and each.patience == self.max_wait:
            lanes[i] = (Event.DISCARD_BUSY if i in busy else Event.DISCARD_CONTENTION, 0, shown)
        else:
            each.front = "IDLE"
            return True
        each.front = "IDLE" if flit.last else "SWALLOW"
        return False

    def _back(self, each, arriving, presented, queued, stays) -> tuple[int, int, int]:
        """What becomes of the arriving flit, and the end of the cycle for the queue; the event."""
        lane, pushed, entering = (0, 0, 0), None, False
        if arriving is None:
            each.back = "NONE"
        elif arriving.first:
            if each.queue.empty:
                if stays:
                    pushed, entering = arriving, True
                else:
                    each.back = "DIRECT"
            elif each.waiting < self.worms:
                pushed, entering = arriving, True
            else:
                lane = (Event.DISCARD_FULL, 0, arriving.data & (1 << HEAD.bits) - 1)
                each.back = "SWALLOW"
            if entering:
                each.back, each.back_count = "STORE", 1
        elif each.back == "STORE":
            pushed = arriving
            each.back_count += 1
            if each.back_count == self.wire.max_flits:
                each.back = "SWALLOW"
        elif each.back == "NONE":
            lane = (Event.STRAY, 0, 0)
        if arriving is not None and arriving.last:
            each.back = "NONE"
        popped = queued and not stays
        each.waiting += entering - (popped and presented.first)
        each.queue.end_cycle(pushed, popped)
        return lane


def word(lane: tuple[int, int, int]) -> int:
    """A lane as its trace word."""
    event, detail, data = lane
    return event | detail << 8 | data << HEAD.shift
