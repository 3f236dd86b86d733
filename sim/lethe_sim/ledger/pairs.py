"""What two nodes have with each other: what the receiver's host takes, and the order of datagrams and worms."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lethe.spec.config import System
from lethe.spec.events import Event

from .columns import NULL, Columns, most_before, runs, starts_of, text
from .datagrams import DELIVERS
from .findings import found
from .group import Run, incarnation_of
from .services import FACTS as OF_SERVICES
from .silence import ATTEMPTS
from .worms import PASSAGES

#: Deliveries and takes of a receiver, by sender and its incarnation (0 where hosts are not shown it): how many, their
#: bytes, the last cycle.
HANDED = {
    "sender": np.int32, "receiver": np.int32, "incarnation": np.int32, "delivered": np.int64,
    "delivered_bytes": np.int64, "taken": np.int64, "taken_bytes": np.int64, "last": np.int64,
}  # fmt: skip
#: Datagrams that were accepted and delivered, by the nodes between which they were sent.
JOURNEYS = {"sender": np.int32, "receiver": np.int32, "accepted_at": np.int64, "delivered_at": np.int64}
#: The tables about a pair of nodes: name → columns.
FACTS: Mapping[str, Mapping[str, type]] = {
    "handed": HANDED, "journeys": JOURNEYS, "passages": PASSAGES, "attempts": ATTEMPTS,
    **OF_SERVICES,
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Pairs:
    """All that some ordered pairs of nodes had with each other; each table as in `FACTS`, in any order."""

    run: Run
    handed: Columns
    journeys: Columns
    passages: Columns
    attempts: Columns
    streams: Columns
    posts: Columns
    hops: Columns


def handed(events: Columns, system: System) -> dict[str, np.ndarray]:
    """`HANDED` of some events, in the columns `group.COLUMNS`."""
    event = events["event"]
    rows = np.flatnonzero(np.isin(event, (*DELIVERS, Event.TAKE)) & (events["unit"] < system.nodes))
    taken, length = event[rows] == Event.TAKE, np.maximum(events["length"][rows], 0).astype(np.int64)
    named = incarnation_of(events["uid"][rows]) if system.ni.source_incarnation else 0
    single = {
        "sender": events["peer"][rows], "receiver": events["unit"][rows],
        "incarnation": np.where(taken, events["detail"][rows], named), "delivered": (~taken).astype(np.int64),
        "delivered_bytes": np.where(taken, 0, length), "taken": taken.astype(np.int64),
        "taken_bytes": np.where(taken, length, 0), "last": events["cycle"][rows],
    }  # fmt: skip
    return added(single)


def added(rows: Columns) -> dict[str, np.ndarray]:
    """`HANDED` with one row for each pair and incarnation."""
    if not len(rows["sender"]):
        return dict(rows)
    key = ("sender", "receiver", "incarnation")
    order, starts = runs(rows["receiver"], rows["sender"], rows["incarnation"])
    sums = {name: np.add.reduceat(rows[name][order], starts) for name in HANDED if name not in key}
    ends = {name: rows[name][order[starts]] for name in key}
    return ends | sums | {"last": np.maximum.reduceat(rows["last"][order], starts)}


def untaken(pairs: Pairs) -> Iterator[pa.Table]:
    """Pairs whose host took other than what was delivered, after a drained run.

    Nodes that were reset or died are left out: what a reset loses is reported by its event.
    """
    run, rows = pairs.run, added(pairs.handed)
    lost = (rows["delivered"] != rows["taken"]) | (rows["delivered_bytes"] != rows["taken_bytes"])
    lost &= ~np.isin(rows["receiver"], [reset.node for reset in run.system.node_resets])
    if run.drained and lost.any():
        rows = {name: values[lost] for name, values in rows.items()}
        yield found(
            run.name, "untaken", uid=np.full(len(rows["last"]), NULL), cycle=rows["last"], unit=rows["receiver"],
            peer=rows["sender"], note=text(
                "delivered", rows["delivered"], "datagrams of", rows["delivered_bytes"], "bytes; taken", rows["taken"],
                "of", rows["taken_bytes"], *(("incarnation", rows["incarnation"]) * run.system.ni.source_incarnation),
            ),
        )  # fmt: skip


def overtaken(pairs: Pairs) -> int:
    """Datagrams that were delivered before one accepted earlier by the same sender for the same receiver.

    Expected under loss (IMP-03): a number, not a finding.
    """
    rows = pairs.journeys
    order = np.lexsort((rows["accepted_at"], rows["receiver"], rows["sender"]))
    rows = {name: values[order] for name, values in rows.items()}
    behind = most_before(starts_of(rows["sender"], rows["receiver"]), rows["delivered_at"])
    return int((behind > rows["delivered_at"]).sum())
