"""The ledger: one row for each datagram, from all its events."""

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import pyarrow as pa

from lethe.spec.events import CAUSE_BITS, REJECTED, Event, Kind

from .columns import NULL, nullable
from .group import Group, source_of

DELIVERS = (Event.DELIVER, Event.DELIVER_BE)
SENDS = (Event.SEND, Event.BE)


@dataclass(frozen=True, kw_only=True)
class Ledger:
    """One row for each datagram of a group; `NULL` where it has none of what is meant.

    Attributes
    ----------
    uid : its packed UID
    accepts, delivers, deliver_bes, sends, best_efforts, acks, forgets, rejects, releases, give_ups, completes : events
    unexpected : Sends of it that were dropped for a reason that a REJECT answers
    swept : how often a service swept it away before its last delivery, so that it could come again
    accepted_at, delivered_at, first_send, last_send, ended_at, first, last : cycles
    accepted_by, destination, length, kind : as it was accepted
    delivered_to, delivered_from, delivered_length, sent_by : (least, greatest) over all deliveries or Sends
    cause, completion : as they were reported
    source : the node that its UID names
    by_reset : whether its source or destination was reset, or died, while it lived
    """

    uid: np.ndarray
    source: np.ndarray
    accepts: np.ndarray
    accepted_at: np.ndarray
    accepted_by: np.ndarray
    destination: np.ndarray
    length: np.ndarray
    kind: np.ndarray
    delivers: np.ndarray
    deliver_bes: np.ndarray
    delivered_at: np.ndarray
    delivered_to: tuple[np.ndarray, np.ndarray]
    delivered_from: tuple[np.ndarray, np.ndarray]
    delivered_length: tuple[np.ndarray, np.ndarray]
    sends: np.ndarray
    best_efforts: np.ndarray
    first_send: np.ndarray
    last_send: np.ndarray
    sent_by: tuple[np.ndarray, np.ndarray]
    acks: np.ndarray
    forgets: np.ndarray
    rejects: np.ndarray
    unexpected: np.ndarray
    swept: np.ndarray
    releases: np.ndarray
    give_ups: np.ndarray
    ended_at: np.ndarray
    cause: np.ndarray
    completes: np.ndarray
    completion: np.ndarray
    first: np.ndarray
    last: np.ndarray
    by_reset: np.ndarray

    @property
    def delivered(self) -> np.ndarray:
        """How often it was delivered."""
        return self.delivers + self.deliver_bes

    @property
    def sent(self) -> np.ndarray:
        """How often it was sent."""
        return self.sends + self.best_efforts

    @property
    def status(self) -> np.ndarray:
        """The Status of its completion."""
        return np.where(self.completes > 0, self.completion >> CAUSE_BITS, NULL)

    def __getitem__(self, which: np.ndarray) -> "Ledger":
        """Some of the rows."""
        rows: dict[str, Any] = {}
        for field in fields(self):
            value = getattr(self, field.name)
            rows[field.name] = tuple(part[which] for part in value) if isinstance(value, tuple) else value[which]
        return Ledger(**rows)


def ledger_of(group: Group) -> Ledger:
    """The rows of a group's datagrams."""
    accepts, delivers, launches = group.of(Event.ACCEPT), group.of(*DELIVERS), group.of(*SENDS)
    give_ups, completes = group.of(Event.GIVE_UP), group.of(Event.COMPLETE)
    uid = group.uid[group.starts]
    rows: dict[str, Any] = {
        "uid": uid,
        "source": source_of(uid),
        "accepts": accepts.times,
        "accepted_at": accepts.least("cycle"),
        "accepted_by": accepts.least("unit"),
        "destination": accepts.least("peer"),
        "length": accepts.least("length"),
        "kind": accepts.least("detail"),
        "delivers": group.of(Event.DELIVER).times,
        "deliver_bes": group.of(Event.DELIVER_BE).times,
        "delivered_at": delivers.least("cycle"),
        "delivered_to": (delivers.least("unit"), delivers.most("unit")),
        "delivered_from": (delivers.least("peer"), delivers.most("peer")),
        "delivered_length": (delivers.least("length"), delivers.most("length")),
        "sends": group.of(Event.SEND).times,
        "best_efforts": group.of(Event.BE).times,
        "first_send": launches.least("cycle"),
        "last_send": launches.most("cycle"),
        "sent_by": (launches.least("unit"), launches.most("unit")),
        "acks": group.of(Event.ACK).times,
        "forgets": group.of(Event.FORGET).times,
        "rejects": group.of(Event.REJECT).times,
        "unexpected": group.of(Event.DROP).with_detail(*REJECTED).times,
        "swept": group.of(Event.SWEPT).before(delivers.most("cycle")).times,
        "releases": group.of(Event.RELEASE).times,
        "give_ups": give_ups.times,
        "ended_at": group.of(Event.RELEASE, Event.GIVE_UP).least("cycle"),
        "cause": give_ups.most("detail"),
        "completes": completes.times,
        "completion": completes.most("detail"),
        "first": np.minimum.reduceat(group.cycle, group.starts) if len(uid) else uid,
        "last": np.maximum.reduceat(group.cycle, group.starts) if len(uid) else uid,
    }
    return Ledger(**rows, by_reset=_by_reset(group, rows))


def _by_reset(group: Group, rows: dict) -> np.ndarray:
    end = np.where(rows["completes"] == 0, group.run.cycles, rows["last"])
    touched = np.zeros(group.datagrams, bool)
    for reset in group.system.faults.resets:
        party = (rows["source"] == reset.node) | (rows["destination"] == reset.node)
        party |= rows["delivered_to"][1] == reset.node
        touched |= party & (end >= reset.start) & (rows["first"] < reset.start + reset.cycles)
    for death in group.system.faults.deaths:  # what others send it from then on is judged as ever
        party = (rows["source"] == death.node) | (rows["destination"] == death.node)
        touched |= party & (end >= death.start) & (rows["first"] < death.start)
    return touched


#: What metrics are made of: the columns of `achieved`.
ACHIEVED = {
    "uid": pa.int64(), "accepted_at": pa.int64(), "delivered_at": pa.int64(), "latency": pa.int64(),
    "source": pa.int32(), "destination": pa.int32(), "bytes": pa.int64(), "flits": pa.int64(),
    "best_effort": pa.bool_(), "status": pa.int32(), "sends": pa.int32(), "messages": pa.int32(),
    "once": pa.bool_(), "by_reset": pa.bool_(),
}  # fmt: skip


def achieved(ledger: Ledger, flit_bytes: int) -> dict[str, np.ndarray]:
    """What became of each datagram, as the columns `ACHIEVED`.

    ``latency`` is in cycles from acceptance to delivery; ``bytes`` and ``flits`` of payload are 0 if it was not
    delivered; ``messages`` are Sends, best efforts, Acks, Forgets and REJECTs.
    """
    came = ledger.delivered_at != NULL
    # A delivery before the acceptance is a finding, and has no latency.
    timed = (ledger.accepted_at != NULL) & (ledger.delivered_at >= ledger.accepted_at)
    length = np.where(came, np.maximum(ledger.delivered_length[0], 0), 0)
    return {
        "uid": ledger.uid,
        "accepted_at": ledger.accepted_at,
        "delivered_at": ledger.delivered_at,
        "latency": np.where(timed, ledger.delivered_at - ledger.accepted_at, NULL),
        "source": ledger.accepted_by,
        "destination": ledger.destination,
        "bytes": length,
        "flits": -(-length // flit_bytes),
        "best_effort": ledger.kind == Kind.BE,
        "status": ledger.status,
        "sends": ledger.sends,
        "messages": ledger.sent + ledger.acks + ledger.forgets + ledger.rejects,
        "once": ledger.delivered == 1,
        "by_reset": ledger.by_reset,
    }


def table_of(rows: dict[str, np.ndarray]) -> pa.Table:
    """`achieved` as a table, null where a number is not there."""
    return pa.table(
        {name: pa.array(rows[name], kind) if kind == pa.bool_() else nullable(rows[name], kind)
         for name, kind in ACHIEVED.items()}
    )  # fmt: skip
