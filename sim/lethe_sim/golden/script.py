"""What the script hosts of a system are to send, `Script`, and what they have taken, `Letters`."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from lethe.spec.config import System
from lethe.spec.sections.workload import RELAYED
from lethe.spec.services.relay import MODE
from lethe.spec.trace import STIMULUS_LIMITS, STIMULUS_RECORD, Bits, fields

from .state import Planned

_RECORD, _LIMITS = fields(STIMULUS_RECORD), fields(STIMULUS_LIMITS)


#: Of an item, but for its payload.
_FIELDS = ("node", "destination", "not_before", "cls", "mode", "deadline", "retry_limit", "tag", "expect", "path")


class GoldenError(ValueError):
    """The model was asked for something that it cannot do; the message says what to do instead."""


@dataclass(frozen=True, kw_only=True)
class Item:
    """One datagram that a node's host offers from cycle ``not_before`` on, in the order of its list."""

    node: int
    destination: int
    payload: bytes = b""
    not_before: int = 0
    cls: int = 0
    mode: int = 0
    deadline: int = 0
    retry_limit: int = 0
    tag: int = 0
    expect: int = 0
    path: int = 0


class Taken(NamedTuple):
    """A datagram that a script host has taken: at ``node``, its record in ``cycle``."""

    node: int
    source: int
    cls: int
    length: int
    payload: bytes
    cycle: int


@dataclass(frozen=True, eq=False)
class Letters:
    """Datagrams delivered to script hosts, in columns, one place each; `payload` cuts one out.

    Attributes
    ----------
    node, source, cls, length, cycle : int64[n]
    at : int64[n], the word of ``data`` where the payload begins
    data : uint64[words], payloads; each begins with a word of its own
    """

    node: np.ndarray
    source: np.ndarray
    cls: np.ndarray
    length: np.ndarray
    cycle: np.ndarray
    at: np.ndarray
    data: np.ndarray

    def __len__(self) -> int:
        """Datagrams."""
        return len(self.node)

    @property
    def columns(self) -> tuple[np.ndarray, ...]:
        """All but the payloads."""
        return self.node, self.source, self.cls, self.length, self.cycle, self.at

    def payload(self, i: int) -> bytes:
        at, length = int(self.at[i]), int(self.length[i])
        return self.data[at : at + -(-length // 8)].astype("<u8").tobytes()[:length]

    def select(self, rows: np.ndarray) -> "Letters":
        """The datagrams that ``rows`` (numbers or a mask) chooses."""
        return Letters(*(column[rows] for column in self.columns), data=self.data)

    @classmethod
    def from_bytes(cls, found: Sequence[tuple[int, int, int, bytes]]) -> "Letters":
        """Letters from (node, source, cycle, payload)."""
        node, source, cycle = (np.array([row[i] for row in found], np.int64) for i in range(3))
        length = np.array([len(row[3]) for row in found], np.int64)
        at = np.cumsum(-(-length // 8)) - -(-length // 8)
        data = np.frombuffer(b"".join(_padded(row[3], 8) for row in found), "<u8").astype(np.uint64)
        return cls(node, source, np.zeros(len(found), np.int64), length, cycle, at, data)


def _padded(payload: bytes, step: int) -> bytes:
    return payload.ljust(-(-len(payload) // step) * step, b"\0")


class Script:
    """What the script hosts of a system play: a list of datagrams per node.

    Attributes
    ----------
    rows, first, data : the arrays the model reads (`Planned` in ``rows``; items of node n from ``first[n]`` on)
    """

    def __init__(self, rows: np.ndarray, first: np.ndarray, data: np.ndarray):
        self.rows, self.first, self.data = rows, first, data

    def __len__(self) -> int:
        """Datagrams."""
        return int(self.first[-1])

    @property
    def source(self) -> np.ndarray:
        """int64[datagrams]: the node that sends each."""
        return np.repeat(np.arange(len(self.first) - 1), np.diff(self.first))

    @property
    def destination(self) -> np.ndarray:
        """int64[datagrams]."""
        return _RECORD["destination"].of(self.rows[:-1, Planned.record])

    @property
    def length(self) -> np.ndarray:
        """int64[datagrams], in bytes."""
        return _RECORD["length"].of(self.rows[:-1, Planned.record])

    @property
    def at(self) -> np.ndarray:
        """int64[datagrams]: the word of ``data`` where the payload begins."""
        return self.rows[:-1, Planned.payload].copy()

    @classmethod
    def from_items(cls, system: System, items: Iterable[Item]) -> "Script":
        """A script from items in any order of nodes; raises `GoldenError` for one that cannot be offered."""
        items = list(items)
        for number, item in enumerate(items):
            if len(item.payload) >= 1 << 16:
                raise GoldenError(f"item {number}: payload must have fewer than 65536 bytes; cut it up")
        step = max(8, system.format.flit_bytes)
        chunks = [_padded(item.payload, step) for item in items]
        data = np.frombuffer(b"".join(chunks), "<u8").astype(np.uint64)
        words = np.array([len(chunk) // 8 for chunk in chunks], np.int64)
        columns = {name: np.array([getattr(item, name) for item in items], object) for name in _FIELDS}
        length = np.array([len(item.payload) for item in items], np.int64)
        return cls.from_columns(system, length=length, data=data, at=np.cumsum(words) - words, **columns)

    @staticmethod
    def from_columns(
        system: System,
        *,
        node: np.ndarray,
        destination: np.ndarray,
        length: np.ndarray,
        data: np.ndarray,
        at: np.ndarray,
        **others: np.ndarray | int,
    ) -> "Script":
        """A script from one array (or one number for all) for each field of `Item`, in any order of nodes.

        Parameters
        ----------
        node, destination, length : whole numbers [datagrams]
        data : uint64[words], payload bytes, little endian; the bytes of the last flit beyond the length must be 0
        at : int64[datagrams], the word where each payload begins: even, if a flit has 128 bits
        others : ``not_before``, ``cls``, ``mode``, ``deadline``, ``retry_limit``, ``tag``, ``expect``, ``path``;
            0 if not given

        Raises `GoldenError` for a datagram that cannot be offered.
        """
        form, count = system.format, len(node)
        limits = {
            "node": system.nodes, "destination": 1 << 16, "not_before": 1 << 60, "cls": 1 << form.class_bits,
            "mode": max(1 << form.mode_bits, MODE + 1), "deadline": 1 << system.ni.deadline_bits, "retry_limit": 256,
            "tag": 1 << system.wire.tag_bits, "expect": 1 << form.incarnation_bits,
            "path": 1 << form.path_bits, "length": 1 << 16,
        }  # fmt: skip
        given = {"node": node, "destination": destination, "length": length, **others}
        columns = {}
        for name, limit in limits.items():
            column = np.broadcast_to(np.asarray(given.pop(name, 0)), count)
            if name == "mode" and system.workload.mode == RELAYED:
                column = np.where(column == 0, MODE, column)
            bad = np.flatnonzero((column < 0) | (column >= limit))
            if len(bad):
                raise GoldenError(f"item {bad[0]}: {name} must be 0 to {limit - 1}, not {column[bad[0]]}")
            columns[name] = column.astype(np.int64)
        if given:
            raise GoldenError(f"an item has no {', '.join(given)}; known are {', '.join(limits)}")
        order = np.argsort(columns["node"], kind="stable")
        first = np.concatenate([[0], np.cumsum(np.bincount(columns["node"], minlength=system.nodes))])
        rows = np.zeros((count + 1, Planned.size), np.int64)
        columns["class"] = columns.pop("cls")
        rows[:-1, Planned.not_before] = columns["not_before"][order]
        rows[:-1, Planned.record] = _packed(columns, _RECORD)[order]
        rows[:-1, Planned.limits] = _packed(columns, _LIMITS)[order]
        rows[:-1, Planned.payload] = np.asarray(at, np.int64)[order]
        # The model reads a flit with the word behind it.
        return Script(rows, first.astype(np.int64), np.concatenate([data, np.zeros(2, np.uint64)]))


def _packed(columns: dict[str, np.ndarray], places: dict[str, Bits]) -> np.ndarray:
    """Columns side by side in one word."""
    word = np.zeros_like(columns["node"])
    for name, field in places.items():
        word |= columns[name] << field.shift
    return word
