"""Flow's answers, worked out again: what was admitted or refused, and why, against what its node knew in that cycle.

What a node knew is what its rows before that cycle say: the states of its peers, the maps that it heard, what it had
under way.  A trace does not have the limits that hosts set, the deadlines of records, nor the credits in headers: an
answer that depends on one of these alone is taken as it is.
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from lethe.spec.events import CAUSE_BITS, Cause, Event, Status
from lethe.spec.services.flow import Code, Out
from lethe_sim.ledger.columns import NULL

from .service import ServiceRows

#: Messages that a stream may have before its receiver has given it any credit.
_FIRST_LIMIT = 2
#: Causes in the order in which flow looks for them (docs/reference/flow.md, section 5), from the third on.
_ORDER = (
    Cause.DESTINATION, Cause.LENGTH, Cause.NOT_BOUND, Cause.NOT_CONNECTED, Cause.CONGESTED, Cause.BUFFER, Cause.WINDOW,
)  # fmt: skip


class _Series:
    """A number for each (epoch, peer) that changes over the cycles; 0 at first.

    Parameters
    ----------
    places : rows in which it changes, at most one in a cycle
    values : what it is from the next cycle on
    """

    def __init__(self, rows: ServiceRows, places: np.ndarray, values: np.ndarray):
        self._rows, self._shift = rows, int(rows.cycle.max(initial=0)) + 2
        keys = self._keys(places)
        order = np.argsort(keys, kind="stable")
        self._known, self._values = keys[order], np.append(values[order].astype(np.int64), 0)

    def _keys(self, places: np.ndarray) -> np.ndarray:
        rows = self._rows
        return (rows.epoch[places] << 16 | rows.peer[places] & 0xFFFF) * self._shift + rows.cycle[places]

    def before(self, places: np.ndarray) -> np.ndarray:
        """What it was when the cycles of some rows, of their epochs and peers, began."""
        keys = self._keys(places)
        at = np.searchsorted(self._known, keys, "left") - 1
        same = (at >= 0) & (np.append(self._known, NULL)[at] // self._shift == keys // self._shift)
        return self._values[np.where(same, at, NULL)]


def answers(
    rows: ServiceRows, sends: np.ndarray, indices: np.ndarray, refused: np.ndarray, ends: np.ndarray
) -> Iterator[pa.Table]:
    """What was admitted or refused and must not have been, or for another cause.

    Parameters
    ----------
    sends, refused, ends : places of rows FLOW_SEND, FLOW_REFUSED and FLOW_END
    indices : of each of ``sends`` the index of the port that it goes to, `NULL` if that is not known
    """
    peers = rows.of(Event.FLOW_PEER)
    states = _Series(rows, peers, rows.detail[peers])
    maps = _maps(rows, peers, states)
    nodes, mtu = rows.system.nodes, rows.system.flow_mtu
    other = rows.peer[sends] != rows.node[sends]
    map_ = maps.before(sends)
    wrong = (
        (rows.length[sends] > mtu, "is longer than a message can be"),
        (rows.peer[sends] >= nodes, "has no such destination"),
        (other & (states.before(sends) != Out.UP), "is for a peer that is not up"),
        (other & (indices != NULL) & (map_ >> np.maximum(indices, 0) & 1 == 1), "is for a port that is congested"),
    )
    for which, why in wrong:
        if which.any():
            yield rows.found("misreported", sends[which], f"was admitted, and {why}")

    cause, state = rows.detail[refused], states.before(refused)
    other = rows.peer[refused] != rows.node[refused]
    far, late = rows.peer[refused] >= nodes, np.isin(cause, _ORDER[1:])
    waiting = other & np.isin(cause, (Cause.CONGESTED, Cause.BUFFER, Cause.WINDOW))
    wrong = (
        ((cause == Cause.DESTINATION) & ~far | late & far, "as its destination is"),
        (np.isin(cause, _ORDER[2:]) & (rows.length[refused] > mtu), "as long as it is"),
        (other & (cause == Cause.NOT_CONNECTED) & (state == Out.UP), "though its peer is up"),
        (waiting & (state != Out.UP), "though its peer is not up"),
        (other & (cause == Cause.CONGESTED) & (maps.before(refused) == 0), "though no port of its peer is congested"),
        (other & (cause == Cause.WINDOW) & (_sent(rows, sends, peers, refused) < _FIRST_LIMIT), "without any message"),
        (other & (cause == Cause.BUFFER) & (_under_way(rows, sends, ends, refused) == 0), "with nothing under way"),
        (~other & np.isin(cause, (Cause.NOT_CONNECTED, Cause.WINDOW)), "though it is for the own node"),
    )
    for which, why in wrong:
        if which.any():
            at = refused[which]
            yield rows.found("misreported", at, _told(rows.detail[at], why))

    restarted = rows.detail[ends] & (1 << CAUSE_BITS) - 1 == Cause.RESTARTED
    restarted &= rows.peer[ends] != rows.node[ends]
    left = _Series(rows, *_counts(rows, peers[rows.detail[peers] == Out.LEAVING]))
    which = restarted & (left.before(ends) == 0)
    if which.any():
        yield rows.found("misreported", ends[which], "ended as its peer was restarted, which it has not left")


def _told(causes: np.ndarray, why: str) -> pa.Array:
    return pa.array([f"was refused for {Cause(cause).name}, {why}" for cause in causes.tolist()])


def _maps(rows: ServiceRows, peers: np.ndarray, states: _Series) -> _Series:
    """The congested ports of each peer, as its node knows them."""
    heard = rows.of(Event.FLOW_HEARD)
    heard = heard[rows.detail[heard] == Code.MAP]
    heard = heard[np.isin(states.before(heard), (Out.CONNECTING, Out.UP))]
    left = peers[rows.detail[peers] == Out.LEAVING]
    places = np.concatenate([heard, left])
    # A map without a bit is no cell of a trace.
    values = np.concatenate([np.maximum(rows.tag[heard], 0), np.zeros(len(left), np.int32)])
    return _Series(rows, places, values)


def _counts(rows: ServiceRows, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows and, of each, how many of them there have been of its (epoch, peer) with it."""
    key = rows.epoch[places] << 16 | rows.peer[places] & 0xFFFF
    order = np.lexsort((rows.cycle[places], key))
    places, key = places[order], key[order]
    starts = np.flatnonzero(np.append(True, key[1:] != key[:-1])) if len(key) else np.zeros(0, np.int64)
    first = np.repeat(starts, np.diff(np.append(starts, len(key))))
    return places, np.arange(len(key)) - first + 1


def _sent(rows: ServiceRows, sends: np.ndarray, peers: np.ndarray, refused: np.ndarray) -> np.ndarray:
    """How many messages were admitted for the peers of some rows, since the streams to them began."""
    places, counts = _counts(rows, sends)
    sent = _Series(rows, places, counts)
    begins = peers[rows.detail[peers] == Out.CONNECTING]
    return sent.before(refused) - _Series(rows, begins, sent.before(begins)).before(refused)


def _under_way(rows: ServiceRows, sends: np.ndarray, ends: np.ndarray, refused: np.ndarray) -> np.ndarray:
    """How many messages nodes had that were admitted and whose completions were not taken, before some rows."""
    ended = ends[rows.detail[ends] >> CAUSE_BITS != Status.REJECTED]
    shift = int(rows.cycle.max(initial=0)) + 2

    def so_far(places: np.ndarray) -> np.ndarray:
        known = np.sort(rows.epoch[places] * shift + rows.cycle[places])
        at = rows.epoch[refused]
        return np.searchsorted(known, at * shift + rows.cycle[refused]) - np.searchsorted(known, at * shift)

    return so_far(sends) - so_far(ended)
