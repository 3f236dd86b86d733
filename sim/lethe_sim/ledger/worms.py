"""Worms at both ends: each arrival has its launch, and none overtakes on its path.

All paths of a pair have one length, so a worm that arrives in *c* was launched in exactly one cycle (`launch_cycle`).
If each arrival has its launch there, no worm has overtaken another of its pair, and none has come from nowhere
(guarantee 3 of the memo).  Where routers have queues a worm may have waited: that there is a launch is checked for each
datagram, and the order for each path, from the `passages` of all its datagrams.
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from lethe.spec import stages
from lethe.spec.config import System
from lethe.spec.events import EVENTS, LAUNCHES, REFUSALS, Cause, Event, Kind
from lethe.spec.topology import Topology

from .columns import NULL, Columns, most_before, runs, starts_of, text
from .datagrams import Ledger
from .findings import found
from .group import Group, Run, slot_of

# By event code: the Kind of the worm that it launches or receives, 0 if it does neither; whether it launches one.
_FAMILY, _LAUNCH = np.zeros(256, np.int8), np.isin(np.arange(256), LAUNCHES)
for _event, _facts in EVENTS.items():
    _FAMILY[_event] = _facts.worm or 0


class Worms:
    """The launches and arrivals of a group: rows of it, and what they say.

    Attributes
    ----------
    uid, cycle, length : of the events
    family : Kind of the worm (Send for best effort)
    launch : whether it is a launch, or an arrival
    sender, receiver : nodes
    """

    def __init__(self, group: Group):
        family = _FAMILY[group.event]
        family[(group.event == Event.DROP) & np.isin(group.detail, REFUSALS)] = Kind.SEND
        family[(group.event == Event.GIVE_UP) & (group.detail == Cause.RESTARTED)] = Kind.REJECT
        rows = np.flatnonzero(family)
        self.family = family[rows]
        self.uid, self.cycle, self.length = group.uid[rows], group.cycle[rows], group.length[rows]
        self.launch = _LAUNCH[group.event[rows]]
        unit, peer = group.unit[rows].astype(np.int64), group.peer[rows].astype(np.int64)
        self.sender = np.where(self.launch, unit, peer)
        self.receiver = np.where(self.launch, peer, unit)

    def launched(self, system: System) -> np.ndarray:
        """The cycle of each worm's first flit, if it never waited."""
        arrived = launch_cycle(system, self.cycle, self.family, self.sender, self.receiver, self.length)
        return np.where(self.launch, self.cycle, arrived)


def launch_cycle(
    system: System,
    cycle: np.ndarray,
    family: np.ndarray,
    sender: np.ndarray,
    receiver: np.ndarray,
    length: np.ndarray,
) -> np.ndarray:
    """Cycle of a worm's first flit, from the cycle in which its arrival acts, `stages.ACTS` after its last flit."""
    wire = system.format
    payload = (np.maximum(length, 0) + wire.flit_bytes - 1) // wire.flit_bytes
    flits = np.where(family == Kind.SEND, wire.header_flits + wire.crc_flits + payload, wire.control_flits)
    return cycle - stages.ACTS - (flits - 1) - hops(system.graph, sender, receiver) * system.router.latency


def hops(graph: Topology, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Routers between two nodes: `Topology.hops` of arrays."""
    match graph.kind:
        case "tree":
            found = np.full(len(a), 2 * graph.levels - 1)
            for level in reversed(range(graph.levels - 1)):
                below = graph.arity ** (level + 1)
                found[a // below == b // below] = 2 * level + 1
            return found
        case "mesh":
            c = graph.columns
            return np.abs(a % c - b % c) + np.abs(a // c - b // c) + 1
        case _:
            return np.full(len(a), graph.hops(0, 1))


def unmatched(group: Group, ledger: Ledger) -> Iterator[pa.Table]:
    """Arrivals without a launch."""
    worms = Worms(group)
    if not len(worms.uid):
        return
    known = not group.system.worms_wait
    at = worms.launched(group.system) if known else np.zeros(len(worms.uid), np.int64)
    place = worms.family.astype(np.int64) << 34 | (worms.sender + 1) << 17 | (worms.receiver + 1)
    order, starts = runs(worms.uid, place, at)
    launches = np.add.reduceat(worms.launch[order].astype(np.int64), starts)
    arrivals = np.diff(np.append(starts, len(order))) - launches
    broken = np.flatnonzero(arrivals > launches)
    if len(broken):
        cycle, first = np.maximum.reduceat(worms.cycle[order], starts), order[starts[broken]]
        yield found(
            group.run.name, "disordered", uid=worms.uid[first], cycle=cycle[broken], unit=worms.receiver[first],
            peer=worms.sender[first], note=text(arrivals[broken], "arrived of", launches[broken], "launched"),
        )  # fmt: skip


#: Columns of `passages`.
PASSAGES = {
    "sender": np.int32, "receiver": np.int32, "path": np.int64, "cycle": np.int64, "uid": np.int64,
    "earliest": np.int64, "latest": np.int64,
}  # fmt: skip


def passages(group: Group) -> dict[str, np.ndarray] | None:
    """Where routers have queues, each arrival with the first and last launch that it may be of; else None.

    A worm waits at most `System.packet_life`, so that some launches of its datagram and kind come into question.
    ``path`` tells apart what has not one path between two nodes: each slot and direction through a fat tree
    (`lethe.spec.pin`) or on several channels of credits, each worm where paths are adaptive or chosen by the sender.
    """
    system = group.system
    if not system.worms_wait:
        return None
    worms, life = Worms(group), system.packet_life
    at = worms.launched(system)
    place = worms.family.astype(np.int64) << 34 | (worms.sender + 1) << 17 | (worms.receiver + 1)
    # Sorted by cycle with launches as they are, an arrival finds the last launch before it; with launches moved by the
    # longest life of a worm, the first launch that it can be of.
    until = np.lexsort((~worms.launch, at, place, worms.uid))
    since = np.lexsort((worms.launch, np.where(worms.launch, at, at - life), place, worms.uid))
    latest, earliest = np.full(len(at), NULL, np.int64), np.full(len(at), NULL, np.int64)
    latest[until] = _nearest(worms.launch[until], worms.cycle[until], worms.uid[until], place[until])
    back = since[::-1]
    earliest[back] = _nearest(worms.launch[back], worms.cycle[back], worms.uid[back], place[back])
    possible = (latest != NULL) & (latest >= at - life)
    arrivals = np.flatnonzero(~worms.launch)
    path = np.zeros(len(at), np.int64)
    if system.overtakes:
        path = np.arange(len(at))
    elif system.graph.kind == "tree" or (system.credits and system.router.credit_channels > 1):
        path = slot_of(worms.uid) << 1 | (worms.family == Kind.ACK)
    columns = {
        "sender": worms.sender, "receiver": worms.receiver, "path": path, "cycle": worms.cycle, "uid": worms.uid,
        "earliest": np.where(possible, earliest, NULL), "latest": np.where(possible, latest, NULL),
    }  # fmt: skip
    return {name: columns[name][arrivals].astype(kind) for name, kind in PASSAGES.items()}


def _nearest(launch: np.ndarray, cycle: np.ndarray, *key: np.ndarray) -> np.ndarray:
    """The cycle of the last launch up to each row that has the same key, NULL if there is none."""
    places = np.arange(len(launch))
    last = np.maximum.accumulate(np.where(launch, places, NULL))
    starts = starts_of(*key)
    first = np.repeat(starts, np.diff(np.append(starts, len(launch))))
    return np.where(last >= first, cycle[last], NULL)


def overtaking(run: Run, rows: Columns) -> Iterator[pa.Table]:
    """Arrivals that broke the order of their path, from the `passages` of all datagrams of some pairs of nodes.

    One has overtaken if the latest of its launches is not behind the earliest of one that arrived before it.
    """
    order = np.lexsort((rows["cycle"], rows["path"], rows["receiver"], rows["sender"]))
    rows = {name: values[order] for name, values in rows.items()}
    behind = most_before(starts_of(rows["sender"], rows["receiver"], rows["path"]), rows["earliest"])
    broken = (rows["latest"] == NULL) | ((behind != NULL) & (rows["latest"] <= behind))
    if broken.any():
        yield found(
            run.name, "disordered", uid=rows["uid"][broken], cycle=rows["cycle"][broken],
            unit=rows["receiver"][broken], peer=rows["sender"][broken],
            note="arrived before one that was launched earlier on its path, or long after it can have been launched",
        )  # fmt: skip
