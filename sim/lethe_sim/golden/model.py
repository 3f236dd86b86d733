"""`Golden`: a system under the golden model."""

import mmap
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from lethe.spec.config import System
from lethe.spec.events import Counter, RouterCounter
from lethe.spec.random import UNIT_GENERATOR, UNIT_NI, seed_for
from lethe_sim.golden.fabric import fabric, tap
from lethe_sim.golden.study import credits

from . import system as machine
from .events import COLUMNS, LINK_COUNTERS
from .script import GoldenError, Item, Letters, Script, Taken
from .services import MODELS
from .services.stack import memory
from .state import (
    EXTERNAL,
    GENERATOR,
    LINE,
    NEVER,
    SCRIPT,
    Host,
    Letter,
    Parameters,
    Planned,
    Registers,
    Router,
    Stream,
    parameters,
)
from .traffic import tree_player

__all__ = [
    "EVENT",
    "Golden",
    "GoldenError",
    "Item",
    "Letters",
    "Script",
    "Taken",
    "fault_schedule",
    "state",
    "zeros",
]

#: What `Golden.take_events` gives: an event as on the trace, with its cycle.
EVENT = np.dtype([("cycle", np.int64), ("unit", np.int32), ("lane", np.int16), ("word", np.uint64), ("uid", np.uint64)])


class Golden:
    """A system under the golden model, from the cycle after system reset on.

    Parameters
    ----------
    system : its configuration
    script : what the script hosts play; without one the traffic generators run
    external : the hosts are driven by stimulus words given to `run`
    record : keep events for `take_events`
    awake : step every NI and its services in every cycle, also with nothing to do: slow, and the same to the last event
    tapped : numbers of the links whose flits are kept for `take_flits`: slower, and the same to the last event
    """

    def __init__(
        self,
        system: System,
        script: Script | None = None,
        *,
        external: bool = False,
        record: bool = False,
        awake: bool = False,
        tapped: Sequence[int] = (),
    ):
        if external and script is not None:
            raise GoldenError("a script and external stimulus exclude each other; give one")
        if script is None and not external and system.workload.kind != "generator":
            raise GoldenError(f"workload.kind is {system.workload.kind!r}: it needs a script; build one first")
        host = EXTERNAL if external else GENERATOR if script is None else SCRIPT
        if len(tapped) and system.credits and system.router.credit_channels > 1:
            raise GoldenError(
                "router.credit_channels: worms of several channels mix on a link; a capture needs one channel"
            )
        self.system, self.record = system, record
        services = memory(system)
        self.k = parameters(system, host, [(len(numbers), words) for numbers, words in services])
        if len(tapped):
            self.k.tapped, self.k.whole = 1, 0
        self._fabric = fabric.build(system, self.k)
        if system.credits:
            credits.start(self.k, self._fabric)
        self._ni, self._data = state(system, self.k)
        for level, (numbers, _) in enumerate(services):
            self._ni[:, int(self.k.rooms[level].at) :][:, : len(numbers)] = numbers
        given = {}
        if script is not None:
            given = {"items": script.rows.reshape(-1), "item_data": script.data}
        schedule = fault_schedule(system)
        routers, links = int(self.k.router_count), int(self.k.link_count)
        self._plant = machine.fresh(
            self.k,
            self._ni.reshape(-1),
            self._data.reshape(-1),
            system.services,
            schedule=schedule.reshape(-1),
            counters=np.zeros(system.nodes * system.counter_addresses, np.uint64),
            router_counters=np.zeros(routers * len(RouterCounter), np.uint64),
            link_counters=np.zeros(links * LINK_COUNTERS, np.uint64),
            service_counters=np.zeros(system.nodes * len(system.services) * int(self.k.service_counters), np.uint64),
            tapped=tap.chosen(links, tapped),
            trees=tree_player.words(system),
            **given,
        )
        self._hosts[:, Host.node] = np.arange(system.nodes)
        self._hosts[:, Host.random] = fabric.seeds(system.run.seed, UNIT_GENERATOR, system.nodes)
        if script is not None:
            self._hosts[:, Host.number], self._hosts[:, Host.items_end] = script.first[:-1], script.first[1:]
        machine.reset_all(self._plant)
        self._plant.clock.keep_events = record
        self._plant.clock.awake = awake
        self._plant.clock.faults = len(schedule)
        self._size_events(max(1 << 16, 4 * self._most_events) if record else 1)
        self._size_letters(4 * system.nodes + 1024 if host == SCRIPT else 0)
        self._size_taps(1 << 16 if len(tapped) else 0)
        if host == SCRIPT:
            self._open_letters()

    @property
    def _most_events(self) -> int:
        """More events than one cycle can have."""
        lanes = len(self.system.layout.lanes) + sum(len(service.lanes) for service in self.system.services)
        return lanes * self.system.nodes + int(2 * self.k.port_count + self.k.link_count) + 8

    def _size_events(self, rows: int) -> None:
        """Room for ``rows`` events beyond those of one cycle."""
        events = np.zeros((rows + self._most_events) * COLUMNS, np.uint64)
        used = (int(self._plant.events[0]) + 1) * COLUMNS
        events[:used] = self._plant.events[:used]
        self._plant = self._plant._replace(events=events)
        self._plant.clock.event_room = rows - 1

    def _size_letters(self, rows: int) -> None:
        """Room for ``rows`` datagrams that are taken, beyond those of one cycle."""
        most, longest = self.system.nodes * int(self.k.streams), int(self.k.slot_words) + 1
        letters = np.zeros((rows + most + 2) * Letter.size, np.int64)
        data = np.zeros((rows + 2 * most) * longest + 4, np.uint64)
        used, words = (int(self._plant.letters[0]) + 1) * Letter.size, int(self._plant.letters[1])
        letters[:used] = self._plant.letters[:used]
        data[:words] = self._plant.letter_data[:words]
        self._plant = self._plant._replace(letters=letters, letter_data=data)
        self._plant.clock.letter_room = rows
        self._plant.clock.letter_word_room = (rows + most) * longest

    def _size_taps(self, rows: int) -> None:
        """Room for ``rows`` flits of tapped links, beyond those of one cycle."""
        taps = np.zeros((rows + int(self._plant.tapped.sum()) + 1) * tap.COLUMNS, np.uint64)
        used = (int(self._plant.taps[0]) + 1) * tap.COLUMNS if rows else 1
        taps[:used] = self._plant.taps[:used]
        self._plant = self._plant._replace(taps=taps)
        self._plant.clock.tap_room = rows

    def _open_letters(self) -> None:
        """The first word of every deliver stream, which is to name the place of its first payload."""
        streams = self._streams
        places = np.arange(len(streams) * streams.shape[1]).reshape(streams.shape[:2])
        streams[:, :, Stream.record_place] = streams[:, :, Stream.beat_place] = places
        self._plant.letters[1] = places.size

    def run(
        self,
        cycles: int,
        *,
        words: np.ndarray | None = None,
        stimulus: np.ndarray | None = None,
        until_drained: bool = False,
    ) -> int:
        """Step up to ``cycles`` cycles; returns how many ran.

        Parameters
        ----------
        words : uint64[cycles, `Layout.words`], filled with the trace words of section 7
        stimulus : uint64[cycles, nodes·`Layout.stimulus_words`]: read if the hosts are external (and then
            required), else filled
        until_drained : stop after the first cycle at whose end everything is drained
        """
        if self._external and stimulus is None:
            raise GoldenError("external hosts need stimulus words; give `stimulus`")
        words = self._rows("words", words, cycles, self.system.layout.words)
        stimulus = self._rows("stimulus", stimulus, cycles, self.system.layout.stimulus_words * self.system.nodes)
        if len(words):
            words[:cycles] = 0
        done = 0
        while done < cycles:
            with np.errstate(over="ignore"):
                done += machine.run(
                    self._plant, self._fabric, cycles - done, words[done:], stimulus[done:], until_drained
                )
            if until_drained and self.drained:
                break
            if done < cycles:
                self._grow()
        return done

    @staticmethod
    def _rows(name: str, rows: np.ndarray | None, cycles: int, width: int) -> np.ndarray:
        if rows is None:
            return machine.NO_WORDS
        if rows.dtype != np.uint64 or rows.ndim != 2 or rows.shape[0] < cycles or rows.shape[1] != width:
            raise GoldenError(f"{name} must be uint64[{cycles}, {width}], not {rows.dtype}{list(rows.shape)}")
        return rows

    def _grow(self) -> None:
        """Make room in the buffer that has stopped a run."""
        clock, letters = self._plant.clock, self._plant.letters
        if int(self._plant.events[0]) > clock.event_room:
            self._size_events(2 * int(clock.event_room) + 2)
        if letters[0] > clock.letter_room or letters[1] > clock.letter_word_room:
            self._size_letters(2 * int(clock.letter_room) + 2)
        if int(self._plant.taps[0]) > clock.tap_room:
            self._size_taps(2 * int(clock.tap_room))
        if self.k.credit_flits and credits.crowded(self.k, self._fabric):
            self._fabric = credits.grow(self.k, self._fabric)

    def memory(self, node: int) -> tuple[Parameters, Registers, np.ndarray]:
        """The parameters, and the numbers and words of a node's NI, for `view`."""
        data = self._plant.data[node * int(self.k.data_width) :]
        return self.k, Registers(self._plant.ni, node * int(self.k.ni_width)), data

    def reset_node(self, node: int, cycles: int) -> None:
        """Reset a node, its services with it, in the next ``cycles`` cycles; what was left of an earlier reset is over.

        Not where `faults.resets` has resets of the same node.
        """
        clock = self._plant.clock
        rows = [
            tuple(map(int, row))
            for row in self._plant.schedule.reshape(-1, 4)[int(clock.scheduled) : int(clock.faults)]
        ]
        end = (machine.NODE_RESETS, node, -1)
        under_way = [row for row in rows if row[1:] == end]
        rows = [row for row in rows if row[1:] != end]
        if not under_way:
            rows.append((self.cycle, machine.NODE_RESETS, node, 1))
        rows.append((self.cycle + cycles, *end))
        rows.sort(key=lambda row: (row[0], -row[3]))
        self._plant = self._plant._replace(schedule=np.array(rows, np.int64).reshape(-1))
        clock.scheduled, clock.faults = 0, len(rows)

    def name_incarnation(self, node: int, incarnation: int) -> None:
        """The incarnation of a node that is in reset, in place of the next one."""
        self._ni[node, Registers.incarnation_now] = incarnation

    @property
    def _hosts(self) -> np.ndarray:
        """int64[nodes, `Host`]."""
        return self._ni[:, int(self.k.at_host) :][:, : Host.size]

    @property
    def _streams(self) -> np.ndarray:
        """int64[nodes, streams, `Stream`], of script hosts."""
        width = int(self.k.streams) * Stream.size
        return self._ni[:, int(self.k.at_streams) :][:, :width].reshape(self.system.nodes, -1, Stream.size)

    @property
    def _external(self) -> bool:
        return bool(self.k.host == EXTERNAL)

    @property
    def cycle(self) -> int:
        """Cycles run so far; the next one has this number."""
        return int(self._plant.clock.cycle)

    @property
    def digest(self) -> int:
        """The digest of all events so far (section 7)."""
        return int(self._plant.digest[0])

    @property
    def drained(self) -> bool:
        """Whether nothing is on any wire, and of the living all hosts are done and all NIs idle."""
        return bool(machine.drained(self._plant, self._fabric))

    @property
    def counters(self) -> np.ndarray:
        """uint64[nodes, `System.counter_addresses`], by `spec.events.Counter`."""
        counters = self._plant.counters.reshape(self.system.nodes, -1).copy()
        counters[:, Counter.REPLIES_DROPPED] = self._ni[:, Registers.replies_dropped].astype(np.uint64)
        return counters

    @property
    def router_counters(self) -> np.ndarray:
        """uint64[routers, 9], by `spec.events.RouterCounter`."""
        counters = self._plant.router_counters.reshape(-1, len(RouterCounter)).copy()
        extra = fabric.rows(self._fabric.routers, Router)[:, Router.extra_fragments]
        counters[:, RouterCounter.FRAGMENT] += extra.astype(np.uint64)
        return counters

    @property
    def link_counters(self) -> np.ndarray:
        """uint64[links, 3]: worms lost, worms that met a dead link, bits flipped."""
        return self._plant.link_counters.reshape(-1, LINK_COUNTERS).copy()

    @property
    def service_counters(self) -> dict[str, np.ndarray]:
        """uint64[nodes, counters] of each service by its name, by its own enumeration (`spec.events.LoopCounter`)."""
        services = self.system.services
        each = self._plant.service_counters.reshape(self.system.nodes, max(1, len(services)), -1)
        found = {s.name: each[:, level, : len(s.counters)].copy() for level, s in enumerate(services)}
        for level, service in enumerate(services):
            for counter, place in getattr(MODELS[service.name], "COUNTED", {}).items():
                kept = self._ni[:, int(self.k.rooms[level].at) + place]
                found[service.name][:, counter] += kept.astype(np.uint64)
        return found

    @property
    def sums(self) -> dict[str, np.ndarray]:
        """Per node (section 5): sent, sent_sum, received, received_sum, wrong; int64 each."""
        names = ("sent", "sent_sum", "received", "received_sum", "wrong")
        return {name: self._hosts[:, getattr(Host, name)].copy() for name in names}

    @property
    def entries(self) -> np.ndarray:
        """int64[nodes]: entries in each receive table."""
        return self._ni[:, Registers.entries].copy()

    @property
    def numbers(self) -> np.ndarray:
        """int64[nodes, numbers]: the numbers of each node, where `parameters` places them; not to be written."""
        return self._ni

    @property
    def words(self) -> np.ndarray:
        """uint64[nodes, words]: the beats and payloads of each node, likewise."""
        return self._data

    @property
    def busy(self) -> np.ndarray:
        """int64[nodes]: slots in use at each sender."""
        return self._ni[:, Registers.busy].copy()

    @property
    def source_depths(self) -> np.ndarray:
        """int64[nodes], with credits: the most flits that have waited in each source queue."""
        return credits.deepest(self.k, self._fabric)

    def take_events(self) -> np.ndarray:
        """The events (dtype `EVENT`) since the last call, in the order of their cycles; needs ``record``."""
        if not self.record:
            raise GoldenError("no events were kept; make the model with record=True")
        kept = self._plant.events.reshape(-1, COLUMNS)[1 : int(self._plant.events[0]) + 1]
        events = np.empty(len(kept), EVENT)
        events["cycle"] = kept[:, 0]
        events["unit"] = kept[:, 1] >> np.uint64(8)
        events["lane"] = kept[:, 1] & np.uint64(0xFF)
        events["word"], events["uid"] = kept[:, 2], kept[:, 3]
        self._plant.events[0] = 0
        return events

    def take_flits(self) -> np.ndarray:
        """The flits (dtype `tap.FLIT`) of the tapped links since the last call, in the order of their cycles."""
        count, self._plant.taps[0] = int(self._plant.taps[0]), 0
        return tap.flits(self._plant.taps, count)

    def extend(self, script: Script) -> None:
        """Script mode: give the hosts further datagrams, behind those they still have."""
        if self.k.host != SCRIPT:
            raise GoldenError("only script hosts take further datagrams; make the model with a script")
        at, end = self._hosts[:, Host.number].copy(), self._hosts[:, Host.items_end].copy()
        old = self._plant.items.reshape(-1, Planned.size)
        added = script.rows.copy()
        if (at < end).any():
            data = np.concatenate([self._plant.item_data, script.data])
            added[:, Planned.payload] += len(self._plant.item_data)
        else:
            data = script.data
        parts = []
        for node, (start, stop) in enumerate(pairwise(script.first.tolist())):
            parts += [old[at[node] : end[node]], added[start:stop]]
        first = np.concatenate([[0], np.cumsum(end - at + np.diff(script.first))])
        rows = np.concatenate([*parts, np.zeros((1, Planned.size), np.int64)])
        self._hosts[:, Host.number], self._hosts[:, Host.items_end] = first[:-1], first[1:]
        self._plant = self._plant._replace(items=rows.reshape(-1), item_data=data)
        np.minimum(self._plant.look, self.cycle, out=self._plant.look)

    def letters(self, first: int = 0) -> Letters:
        """Script mode: the datagrams that the hosts have taken, from the ``first``-th on, as their records were.

        ``cycle`` is the cycle in which the host took the record.  Beats that it has not yet taken, or never will since
        the node was reset, are 0.
        """
        letters = self._plant.letters.reshape(-1, Letter.size)
        rows = letters[1 + first : int(letters[0, 0]) + 1].copy()
        return Letters(*(rows[:, getattr(Letter, name)] for name in Letter.layout), data=self._plant.letter_data)

    @property
    def taking(self) -> bool:
        """Script mode: whether a host has taken a part of a datagram, and not the rest."""
        return bool(self._streams[:, :, [Stream.ahead, Stream.beat]].any())

    @property
    def taken(self) -> list[Taken]:
        """Script mode: the same as a list."""
        found = self.letters()
        return [
            Taken(
                *(int(column[i]) for column in found.columns[:4]),
                payload=found.payload(i),
                cycle=int(found.cycle[i]),
            )
            for i in range(len(found))
        ]


def zeros(rows: int, width: int, dtype: type) -> np.ndarray:
    """A matrix of zeros that begins with a line of the cache; only what is used of it takes memory, page by small page
    if it is large.
    """
    size = 8 * rows * width
    if size < 1 << 28 or not hasattr(mmap, "MADV_NOHUGEPAGE"):
        room = np.zeros(rows * width + LINE - 1, dtype)
        first = -room.ctypes.data // 8 % LINE
        return room[first : first + rows * width].reshape(rows, width)
    memory = mmap.mmap(-1, size)
    memory.madvise(mmap.MADV_NOHUGEPAGE)
    return np.frombuffer(memory, dtype).reshape(rows, width)


def state(system: System, k: Parameters, only: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """The rows of all NIs (or of one) before their reset: numbers, incarnations and seeds are in place."""
    nodes = np.arange(system.nodes) if only is None else np.array([only])
    ni = zeros(len(nodes), int(k.ni_width), np.int64)
    data = zeros(len(nodes), int(k.data_width), np.uint64)
    ni[:, Registers.number] = nodes
    ni[:, Registers.incarnation_now] = 1
    ni[:, Registers.dead_from] = NEVER
    for death in system.faults.deaths:
        if death.node in nodes:
            ni[nodes == death.node, Registers.dead_from] = system.death(death.node)
    ni[:, Registers.random] = [seed_for(system.run.seed, UNIT_NI, node) for node in nodes.tolist()]
    return ni, data


def fault_schedule(system: System) -> np.ndarray:
    """Section 6 as rows of (cycle, what, which, +1 or −1), in the order of their cycles."""
    faults = system.faults
    spans = [(machine.LINK_DIES, x.link, x.start, x.end) for x in system.link_deaths]
    spans += [(machine.NODE_STALLS, x.node, x.start, x.end) for x in faults.stalls]
    scopes = {"node": machine.NODE_RESETS, "ni": machine.NI_RESETS}
    spans += [(scopes[x.scope], x.node, x.start, x.start + x.cycles) for x in system.node_resets]
    spans += [(machine.NODE_AWAY, x.node, x.start, x.end) for x in faults.absences]
    rows = [(start, what, which, 1) for what, which, start, _ in spans]
    rows += [(end, what, which, -1) for what, which, _, end in spans]
    # A fault that follows another at once goes first, so that the two are one.
    rows.sort(key=lambda row: (row[0], -row[3]))
    return np.array(rows, np.int64).reshape(-1, 4)
