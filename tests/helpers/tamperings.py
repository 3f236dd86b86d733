"""Traces that were tampered with, and what the audit must find."""

from collections.abc import Callable

from lethe.spec.events import Event
from lethe.spec.stages import JUDGED, SHOWN

Rows = list[dict]


def first(rows: Rows, *events: Event, **wanted) -> dict:
    return next(r for r in rows if r["event"] in events and all(r[k] == v for k, v in wanted.items()))


def _delete(event: Event):
    return lambda rows: rows.remove(first(rows, event))


def _delete_last_forgotten(rows: Rows) -> None:
    rows.remove(max((r for r in rows if r["event"] == Event.FORGOTTEN), key=lambda r: r["cycle"]))


def _deliver_a_duplicate(rows: Rows) -> None:
    first(rows, Event.DUPLICATE)["event"] = int(Event.DELIVER)


def _double_a_row(rows: Rows) -> None:
    rows.append(dict(first(rows, Event.DELIVER)))


def _swap_datagrams(rows: Rows) -> None:
    a = first(rows, Event.DELIVER)
    b = next(r for r in rows if r["event"] == Event.DELIVER and r["unit"] == a["unit"] and r["uid"] != a["uid"])
    a["uid"], b["uid"] = b["uid"], a["uid"]


def _overtake(rows: Rows) -> None:
    """An Ack arrives a cycle before the fabric could have brought it."""
    first(rows, Event.RELEASE)["cycle"] -= 1


def _other_length(rows: Rows) -> None:
    first(rows, Event.DELIVER)["length"] += 1


def _other_source(rows: Rows) -> None:
    first(rows, Event.DELIVER, peer=1)["peer"] = 0


def _other_destination(rows: Rows) -> None:
    row = first(rows, Event.DELIVER)
    row["unit"] = next(n for n in range(4) if n not in (row["unit"], row["peer"]))


def _contradict_completion(rows: Rows) -> None:
    first(rows, Event.COMPLETE)["detail"] = 3 << 4 | 3


def _send_after_the_end(rows: Rows) -> None:
    """Judged in the first cycle in which its slot is not live."""
    end = first(rows, Event.RELEASE)
    rows.append(dict(first(rows, Event.SEND, uid=end["uid"])) | {"cycle": end["cycle"] + 1 + SHOWN - JUDGED})


def _give_up(rows: Rows) -> None:
    """Ended without an Ack: delivered or not, it is not lost."""
    end = first(rows, Event.RELEASE)
    first(rows, Event.COMPLETE, uid=end["uid"])["detail"] = 1 << 4 | 1
    end |= {"event": int(Event.GIVE_UP), "detail": 1}


#: What is done to a trace → findings it must have, findings it may have as well.
TAMPERINGS: dict[str, tuple[Callable[[Rows], object], set[str], set[str]]] = {
    "nothing": (lambda rows: None, set(), set()),
    "deliver deleted": (_delete(Event.DELIVER), {"lost", "untaken"}, {"invented"}),
    "launch deleted": (_delete(Event.ACK), {"disordered"}, set()),
    "completion deleted": (_delete(Event.COMPLETE), {"held"}, set()),
    "forgotten deleted": (_delete_last_forgotten, {"remembered"}, set()),
    "take deleted": (_delete(Event.TAKE), {"untaken"}, set()),
    "acceptance deleted": (_delete(Event.ACCEPT), {"invented"}, set()),
    "duplicate delivered": (_deliver_a_duplicate, {"doubled", "untaken"}, {"remembered"}),
    "row doubled": (_double_a_row, {"doubled", "disordered", "untaken"}, set()),
    "datagrams swapped": (_swap_datagrams, {"disordered"}, {"altered", "invented"}),
    "overtaken": (_overtake, {"disordered"}, set()),
    "length altered": (_other_length, {"altered", "untaken"}, {"disordered"}),
    "source altered": (_other_source, {"altered", "disordered", "untaken"}, set()),
    "destination altered": (_other_destination, {"altered", "disordered", "untaken"}, {"remembered"}),
    "completion altered": (_contradict_completion, {"misreported"}, set()),
    "sent after the end": (_send_after_the_end, {"late"}, set()),
    "given up": (_give_up, set(), set()),
}
