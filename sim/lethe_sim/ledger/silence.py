"""Silent nodes: an end with cause SILENT follows `timers.silent_after` repeats to a node that was not heard meanwhile.

A sender counts its repeats to each node, and begins anew when it hears it (cycle contract, 4.14).  Whether a datagram
ends is decided when it is granted: after it was accepted and its last repeat was queued, and before its end is shown.
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from lethe.spec.events import Cause, Event

from .columns import Columns, starts_of, text
from .datagrams import Ledger
from .findings import found
from .group import Group, Run

#: Repeats to a node, signs of it, and ends that say that it is silent (``what``); for an end, its datagram and the
#: cycle of its acceptance or last repeat.
ATTEMPTS = {
    "sender": np.int32, "receiver": np.int32, "cycle": np.int64, "what": np.int8, "uid": np.int64, "since": np.int64,
}  # fmt: skip
_REPEAT, _HEARD, _END = range(3)
#: Cycles from the last event that a grant can know to the end that follows from it.
_KNOWN = 5


def attempts(group: Group, ledger: Ledger) -> dict[str, np.ndarray] | None:
    """`ATTEMPTS` of some datagrams; None where no node counts as silent.  What a reset touched has no end."""
    if not group.system.timers.silent_after:
        return None
    given_up = group.of(Event.GIVE_UP)
    ends = given_up.with_detail(Cause.SILENT).rows
    ends = ends[~ledger.by_reset[group.owner[ends]]]
    heard = group.of(Event.RELEASE, Event.ACK_IGNORED, Event.REJECT_IGNORED).rows
    parts = {
        _REPEAT: group.of(Event.REPEAT).rows,
        _HEARD: np.concatenate([heard, given_up.with_detail(Cause.RESTARTED).rows]),
        _END: ends,
    }
    rows = np.concatenate(list(parts.values()))
    since = np.maximum(ledger.accepted_at, group.of(Event.REPEAT).most("cycle"))
    columns = {
        "sender": group.unit[rows], "receiver": group.peer[rows], "cycle": group.cycle[rows],
        "what": np.repeat(list(parts), [len(part) for part in parts.values()]), "uid": group.uid[rows],
        "since": since[group.owner[rows]],
    }  # fmt: skip
    return {name: columns[name].astype(kind) for name, kind in ATTEMPTS.items()}


def unsilent(run: Run, rows: Columns) -> Iterator[pa.Table]:
    """Ends with cause SILENT of datagrams to a node that was not silent, from the `attempts` of some pairs of nodes."""
    if not len(rows["cycle"]):
        return
    rows = _with_resets(run, rows)
    order = np.lexsort((rows["cycle"], rows["receiver"], rows["sender"]))
    sender, receiver, cycle, what, uid, since = (rows[name][order] for name in ATTEMPTS)
    starts = starts_of(sender, receiver)
    pair = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(cycle))))
    # Repeats since the node was heard: all of them so far, less those up to then.
    repeats = np.cumsum(what == _REPEAT)
    before = np.zeros(len(cycle), np.int64)
    before[starts] = repeats[starts] - (what[starts] == _REPEAT)
    heard = what == _HEARD
    before[heard] = repeats[heard]
    count = repeats - np.maximum.accumulate(before)
    # The most that an end's grant can have known: from the last row before ``since`` on.
    ends = np.flatnonzero(what == _END)
    time, place = pair << 43 | cycle, pair[ends] << 43
    first = np.maximum(np.searchsorted(time, place | since[ends], "right") - 1, starts[pair[ends]])
    after = np.searchsorted(time, place | np.maximum(cycle[ends] - _KNOWN, 0), "right")
    bounds = np.stack([first, np.maximum(after, first)], axis=1).ravel()
    most = np.maximum.reduceat(np.append(count, 0), bounds)[::2] if len(ends) else count[:0]
    known = (after > first) & (cycle[first] <= cycle[ends] - _KNOWN)
    wrong = ends[~known | (most < run.system.timers.silent_after)]
    if len(wrong):
        yield found(
            run.name, "misreported", uid=uid[wrong], cycle=cycle[wrong], unit=sender[wrong], peer=receiver[wrong],
            note=text("ended SILENT, but after fewer than", np.full(len(wrong), run.system.timers.silent_after),
                      "repeats without a sign of its destination"),
        )  # fmt: skip


def _with_resets(run: Run, rows: Columns) -> Columns:
    """The same with a sign of every node at each reset of their sender, which begins anew then, too."""
    pairs = np.unique(rows["sender"].astype(np.int64) << 16 | rows["receiver"])
    signs = [(pair, reset.start) for reset in run.system.node_resets for pair in pairs[pairs >> 16 == reset.node]]
    pair, cycle = (np.array(column, np.int64) for column in zip(*signs, strict=True)) if signs else (pairs[:0],) * 2
    more = {"sender": pair >> 16, "receiver": pair & 0xFFFF, "cycle": cycle, "what": np.full(len(pair), _HEARD)}
    return {
        name: np.concatenate([rows[name], more.get(name, np.zeros(len(pair), np.int64)).astype(kind)])
        for name, kind in ATTEMPTS.items()
    }
