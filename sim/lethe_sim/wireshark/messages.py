"""From flits to messages: what crossed each tapped link, whole, with what became of it at the end of the link.

A message begins with a flit with ``first``, or after a gap; it ends with ``last``, before the next ``first``, or before
a gap (with credits worms pause, and a gap is none).  Memory is bounded by what is under way.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from lethe.spec.capture import Mark, Passage
from lethe.spec.config import System
from lethe.spec.events import LANE_RX, RESETS, Column, Unit, events_with
from lethe.spec.stages import ACTS
from lethe.spec.trace import DETAIL, EVENT, HEAD
from lethe_sim.golden.fabric.tap import FLIT

#: What a router does with a head.
_FATES = frozenset(events_with(columns=Column.HEAD, unit=Unit.ROUTER))


@dataclass(slots=True)
class LinkMessage:
    """A message on a link: ``cycle`` … ``end`` are those of its first and last flit there.

    ``fate`` and ``detail`` are the event with which the unit at the end of the link acts on it; 0 if there is none.
    """

    link: int
    cycle: int
    end: int
    passage: Passage
    marks: Mark
    flits: int
    reached: int
    flips: int
    data: bytes
    fate: int = 0
    detail: int = 0
    settled: bool = False


class Messages:
    """Makes messages of the flits and events that a run gives piece by piece.

    Parameters
    ----------
    links : numbers of the tapped links
    """

    def __init__(self, system: System, links: list[int]):
        graph = system.graph
        self._nodes, self._pauses, self._flit_bytes = graph.nodes, bool(system.credits), system.format.flit_bytes
        self._kept, self._pool = np.zeros(0, FLIT), system.pool > 0
        #: Messages in the order of their beginnings, as far as that is known.
        self._pending: list[LinkMessage] = []
        self._ends = {number: graph.link(number) for number in links}
        # Where the events are that tell of a message: (unit, lane) → its link.
        self._shown: dict[tuple[int, int], int] = {}
        self._backs: dict[tuple[int, int], int] = {}
        for number, end in self._ends.items():
            if end.target_is_node:
                self._shown[end.target, LANE_RX] = number
            else:
                unit = graph.first_router + end.target
                # With a pool an input shows the fate of a head in its cycle; what is stored is shown as it leaves.
                (self._backs if self._pool else self._shown)[unit, end.target_port] = number
                if graph.queued and not self._pool:
                    self._backs[unit, graph.ports(end.target) + end.target_port] = number
        # Heads that wait for what a router does with them, and the reverse, in the order of their arrival.
        self._heads: dict[int, deque[LinkMessage]] = {
            n: deque() for n, end in self._ends.items() if not end.target_is_node
        }
        self._fates: dict[int, deque[tuple[int, int]]] = {number: deque() for number in self._heads}
        self._refused: dict[tuple[int, int], tuple[int, int]] = {}
        # With pools: stored heads, and (cycle, fate) of those that left, by unit and the bits that events show.
        self._stored: dict[tuple[int, int], deque[LinkMessage]] = {}
        self._left: dict[tuple[int, int], deque[tuple[int, tuple[int, int]]]] = {}
        self._units = {number: graph.first_router + end.target for number, end in self._ends.items()}
        self._ports = {
            graph.first_router + end.target: graph.ports(end.target)
            for end in self._ends.values()
            if self._pool and not end.target_is_node
        }
        self._acting: dict[tuple[int, int], LinkMessage] = {}
        lanes = 1 << 8
        self._wanted = np.zeros(lanes * (graph.first_link + 1), bool)
        self._wanted[[unit * lanes + lane for unit, lane in (*self._shown, *self._backs)]] = True
        for unit, ports in self._ports.items():
            self._wanted[unit * lanes + ports : unit * lanes + 2 * ports] = True

    def take(self, flits: np.ndarray, events: np.ndarray, cycle: int, *, over: bool = False) -> Iterator[LinkMessage]:
        """The messages that are complete, in the order of their beginnings.

        Parameters
        ----------
        flits, events : of all cycles since the last call, up to the one before ``cycle`` (`tap.FLIT`, `model.EVENT`)
        over : nothing comes after them
        """
        self._assemble(np.concatenate([self._kept, flits]), cycle, over)
        self._judge(events, cycle)
        for key in [key for key in self._acting if over or key[1] + ACTS < cycle]:
            self._acting.pop(key).settled = True
        if over:
            for message in self._pending:
                message.settled = True
        self._pending.sort(key=lambda message: (message.cycle, message.link))
        waiting = next((m.cycle for m in self._pending if not m.settled), cycle)
        if len(self._kept):
            waiting = min(waiting, int(self._kept["cycle"].min()))
        ready = 0
        while ready < len(self._pending) and (over or self._pending[ready].cycle < waiting):
            ready += 1
        done, self._pending = self._pending[:ready], self._pending[ready:]
        yield from done

    def _assemble(self, flits: np.ndarray, cycle: int, over: bool) -> None:
        """Cut the flits into messages; those of messages that may go on are kept."""
        self._kept = flits[:0]
        if not len(flits):
            return
        flits = flits[np.lexsort((flits["cycle"], flits["link"]))]
        link, at, last = flits["link"], flits["cycle"], flits["last"]
        new = np.ones(len(flits), bool)
        new[1:] = (link[1:] != link[:-1]) | flits["first"][1:] | last[:-1]
        if not self._pauses:
            new[1:] |= at[1:] != at[:-1] + 1
        starts = np.flatnonzero(new)
        stops = np.append(starts[1:], len(flits))
        # What is under way: the last message of a link, if it has not ended.
        goes_on = ~last[stops - 1] & np.append(link[starts[1:]] != link[starts[:-1]], True)
        if not self._pauses:
            goes_on &= at[stops - 1] == cycle - 1
        if over:
            goes_on[:] = False
        self._kept = flits[np.repeat(goes_on, stops - starts)]
        data = np.ascontiguousarray(flits["data"][:, : self._flit_bytes]).tobytes()
        vanished = flits["passage"] != Passage.PASSED
        gone = np.append(0, np.cumsum(vanished))
        flips = np.append(0, np.cumsum(flits["flipped"]))
        closed = ~goes_on
        for start, stop in zip(starts[closed].tolist(), stops[closed].tolist(), strict=True):
            lost = int(gone[stop] - gone[start])
            passage = Passage.PASSED
            if lost:
                passage = Passage(int(flits["passage"][start + int(np.argmax(vanished[start:stop]))]))
            marks = Mark(0)
            if not flits["first"][start]:
                marks |= Mark.HEADLESS
            if not last[stop - 1]:
                marks |= Mark.FRAGMENT
            if flips[stop] != flips[start]:
                marks |= Mark.FLIPPED
            self._begin(
                LinkMessage(
                    link=int(link[start]), cycle=int(at[start]), end=int(at[stop - 1]), passage=passage, marks=marks,
                    flits=stop - start, reached=stop - start - lost, flips=int(flips[stop] - flips[start]),
                    data=data[start * self._flit_bytes : stop * self._flit_bytes],
                ),
                head=bool(flits["first"][start]) and not vanished[start],
                whole=bool(last[stop - 1]) and not lost and bool(flits["first"][start]),
            )  # fmt: skip

    def _begin(self, message: LinkMessage, *, head: bool, whole: bool) -> None:
        """A message waits for its fate: a router decides on its head, an NI acts on what is whole."""
        self._pending.append(message)
        if self._ends[message.link].target_is_node:
            if whole:
                self._acting[message.link, message.end] = message
                return
        elif head:
            self._heads[message.link].append(message)
            return
        message.settled = True

    def _judge(self, events: np.ndarray, cycle_now: int) -> None:
        """Find the fates in the events before ``cycle_now``.

        A head's may come before its message is complete, and waits for it.
        """
        place = events["unit"].astype(np.int64) << 8 | events["lane"].astype(np.int64)
        place[place >= len(self._wanted)] = len(self._wanted) - 1
        for row in np.flatnonzero(self._wanted[place]).tolist():
            cycle, unit, lane = int(events["cycle"][row]), int(events["unit"][row]), int(events["lane"][row])
            word = int(events["word"][row])
            fate = EVENT.of(word), DETAIL.of(word)
            if unit < self._nodes:
                message = self._acting.pop((self._shown[unit, lane], cycle - ACTS), None)
                if message is not None and fate[0] not in RESETS:
                    _settle(message, fate)
            elif fate[0] not in _FATES:
                continue
            elif self._pool and lane >= self._ports[unit]:
                self._left.setdefault((unit, HEAD.of(word)), deque()).append((cycle, fate))
            elif (unit, lane) in self._backs:
                self._refused[self._backs[unit, lane], cycle] = fate
            else:
                self._fates[self._shown[unit, lane]].append(fate)
        for link, heads in self._heads.items():
            if not heads:
                continue
            for head in [head for head in heads if (link, head.cycle) in self._refused]:
                _settle(head, self._refused.pop((link, head.cycle)))
                heads.remove(head)
            while self._pool and heads and heads[0].cycle < cycle_now:
                head = heads.popleft()
                shown = int.from_bytes(head.data[: self._flit_bytes], "little") & (1 << HEAD.bits) - 1
                self._stored.setdefault((self._units[link], shown), deque()).append(head)
            fates = self._fates[link]
            while heads and fates:
                _settle(heads.popleft(), fates.popleft())
        if self._pool:
            self._leave(cycle_now)

    def _leave(self, cycle_now: int) -> None:
        """Heads that were stored have left by an output; equal ones in their order.

        What left of messages that are not complete is kept; the rest came by links without a tap.
        """
        for key, left in self._left.items():
            heads = self._stored.get(key, ())
            while left and heads and heads[0].cycle < left[0][0]:
                _settle(heads.popleft(), left.popleft()[1])
        since = int(self._kept["cycle"].min()) if len(self._kept) else cycle_now
        self._left = {
            key: kept for key, left in self._left.items() if (kept := deque(one for one in left if one[0] > since))
        }
        self._stored = {key: heads for key, heads in self._stored.items() if heads}


def _settle(message: LinkMessage, fate: tuple[int, int]) -> None:
    message.fate, message.detail = fate
    message.settled = True
