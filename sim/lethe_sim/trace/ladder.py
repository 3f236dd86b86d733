"""A datagram's life as a message ladder: two lines, and every worm between them with its fate."""

from collections import Counter as Multiset
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lethe.spec.events import Event
from lethe.spec.wire import pack_uid, unpack_uid

from .events import filled
from .life import Life, Note, Worm
from .store import TraceError, TraceReader, open_trace

__all__ = ["MessageLadder", "Note", "Worm", "find", "listing", "text_ladder", "unlucky"]


@dataclass(frozen=True, kw_only=True)
class MessageLadder:
    """One datagram's life."""

    uid: int
    sender: int
    receiver: int
    length: int | None
    worms: tuple[Worm, ...]
    notes: tuple[Note, ...]

    @property
    def uid_text(self) -> str:
        return ":".join(map(str, unpack_uid(self.uid)))

    @property
    def title(self) -> str:
        size = "" if self.length is None else f", {self.length} bytes"
        return f"datagram {self.uid_text}: node {self.sender} to node {self.receiver}{size}"

    def text(self, width: int = 46) -> str:
        """The ladder in characters, ``width`` of them between the two lines."""
        rows: list[tuple[int, int, str]] = [(note.cycle, 0, self._note_line(note, width)) for note in self.notes]
        for worm in self.worms:
            rows.append((worm.launched, 1, self._worm_line(worm, width)))
        head = f"{'cycle':>10}  {'node ' + str(self.sender):<{width + 1}} node {self.receiver}"
        return "\n".join([self.title, "", head, *(line for _, _, line in sorted(rows))])

    @staticmethod
    def _note_line(note: Note, width: int) -> str:
        space = f"{note.text:<{width}}" if note.at_sender else f"{note.text:>{width}}"
        return f"{note.cycle:>10}  {'●' if note.at_sender else '│'}{space}{'│' if note.at_sender else '●'}"

    @staticmethod
    def _worm_line(worm: Worm, width: int) -> str:
        label = f" {worm.name} "
        if worm.arrived is not None:
            shaft, head = label.center(width - 1, "─"), "▶" if worm.from_sender else "◀"
            after = f"{worm.arrived}: {worm.fate}"
        else:
            reach = max(len(label) + 4, min(width - 4, round(worm.progress * width)))
            shaft, head = label.center(reach - 1, "─"), "╳"
            after = worm.fate
        arrow = (shaft + head).ljust(width) if worm.from_sender else (head + shaft).rjust(width)
        return f"{worm.launched:>10}  │{arrow}│  {after}"


def find(path: str | Path, which: str) -> MessageLadder:
    """The ladder of a datagram of the trace at ``path``.

    ``which`` is a packed UID (decimal or 0x…), ``source:incarnation:slot:generation``, or ``unlucky``: the datagram
    sent most often.  Raises `TraceError` if the trace is unusable or has no such datagram.
    """
    trace = open_trace(path)
    life = Life(trace, unlucky(trace) if which == "unlucky" else _parse(path, which))
    return MessageLadder(
        uid=life.uid,
        sender=life.sender,
        receiver=life.receiver,
        length=life.length,
        worms=life.worms,
        notes=life.notes,
    )


def text_ladder(path: str | Path, which: str = "unlucky") -> str:
    """`find`, as text."""
    return find(path, which).text()


def _parse(path: str | Path, which: str) -> int:
    parts = which.split(":")
    try:
        numbers = [int(part, 0) for part in parts]
    except ValueError:
        numbers = []
    limits = (1 << 16, 1 << 8, 1 << 16, 1 << 20)
    if len(numbers) == 1 and 0 < numbers[0] < 1 << 60:
        return numbers[0]
    if len(numbers) == 4 and all(0 <= n < limit for n, limit in zip(numbers, limits, strict=True)):
        return pack_uid(*numbers)
    raise TraceError(
        f"{path}: {which!r} is no UID; give source:incarnation:slot:generation, a packed UID, or `unlucky`"
    )


def unlucky(trace: TraceReader) -> int:
    """The UID that was sent most often (the first accepted of equals)."""
    sent = sends(trace)
    return max(sent, key=lambda uid: sent[uid])


def listing(path: str | Path, most: int = 10) -> str:
    """The datagrams that were sent most often, one a line, with what `find` takes for each."""
    sent = sends(open_trace(path))
    rows = sorted(sent.items(), key=lambda row: -row[1])[:most]
    names = [":".join(map(str, unpack_uid(uid))) for uid, _ in rows]
    width = max(map(len, names))
    lines = (
        f"{name:<{width}}  sent {count:,} time{'' if count == 1 else 's'}"
        for name, (_, count) in zip(names, rows, strict=True)
    )
    return "\n".join([*lines, f"of {len(sent):,} datagrams"])


def sends(trace: TraceReader) -> Multiset[int]:
    """How often each UID was sent; raises `TraceError` if none was."""
    sent: Multiset[int] = Multiset()
    for batch in trace.batches(["unit", "event", "uid"]):
        unit, event, uid = (filled(batch[name])[0] for name in ("unit", "event", "uid"))
        launched = (unit < trace.meta.system.nodes) & np.isin(event, (Event.SEND, Event.BE))
        uids, counts = np.unique(uid[launched], return_counts=True)
        sent.update({uid: count for uid, count in zip(uids.tolist(), counts.tolist(), strict=True) if uid > 0})
    if not sent:
        raise TraceError(f"{trace.path}: has no datagram that was ever sent; nothing can be drawn")
    return sent
