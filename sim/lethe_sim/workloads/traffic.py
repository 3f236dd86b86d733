"""Datagrams by the million: draws, payloads that name their datagram, and whether what came is what was sent."""

from collections.abc import Generator, Iterable

import numpy as np

from lethe.spec.config import System
from lethe_sim.golden.script import Letters, Script
from lethe_sim.trace.events import mix

from .workload import Verdict

_GOLDEN, _MULTIPLIER = np.uint64(0x9E37_79B9_7F4A_7C15), np.uint64(0xD6E8_FEB8_6659_FD93)


def draw(seed: int, purpose: int, node: np.ndarray, number: np.ndarray) -> np.ndarray:
    """A number in [0, 1) for each (node, number): the same wherever and in whatever order it is asked for."""
    key = mix(np.array([seed << 8 | purpose], np.uint64) * _GOLDEN)
    word = mix((node.astype(np.uint64) << np.uint64(40) | number.astype(np.uint64)) * _MULTIPLIER ^ key)
    return (word >> np.uint64(11)) * 2.0**-53


def payloads(source: np.ndarray, number: np.ndarray, length: np.ndarray, words: int) -> tuple[np.ndarray, np.ndarray]:
    """(data, at) for `Script.from_columns`: payloads in which every byte depends on source and number.

    ``words`` is the room for each, in words of 64 bits.
    """
    key = mix((source.astype(np.uint64) << np.uint64(40) | number.astype(np.uint64)) * _GOLDEN + np.uint64(1))
    data = np.empty((len(source), words), np.uint64)
    for i in range(words):
        word = mix(key + np.uint64(i * int(_MULTIPLIER) & (1 << 64) - 1))
        kept = np.clip(length - 8 * i, 0, 8).astype(np.uint64) * np.uint64(8)
        mask = np.where(kept >= 64, ~np.uint64(0), (np.uint64(1) << np.minimum(kept, np.uint64(63))) - np.uint64(1))
        data[:, i] = word & mask
    return data.reshape(-1), words * np.arange(len(source))


def slot_words(system: System) -> int:
    """Words of the longest payload, whole flits of them."""
    step = max(8, system.format.flit_bytes)
    return -(-system.slot_flits * system.format.flit_bytes // step) * step // 8


def fingerprints(
    node: np.ndarray, source: np.ndarray, length: np.ndarray, at: np.ndarray, data: np.ndarray
) -> np.ndarray:
    """uint64[datagrams]: what one datagram is, for counting equal ones."""
    mark = mix((node.astype(np.uint64) << np.uint64(32) | source.astype(np.uint64)) * _GOLDEN)
    mark = mix(mark + length.astype(np.uint64))
    words = -(-length // 8)
    for i in range(int(words.max(initial=0))):
        rows = np.flatnonzero(words > i)
        word = data[at[rows] + i]
        kept = np.minimum(length[rows] - 8 * i, 8).astype(np.uint64) * np.uint64(8)
        word = word & (~np.uint64(0) >> (np.uint64(64) - kept))
        mark[rows] = mix((mark[rows] ^ word) * _MULTIPLIER + np.uint64(i))
    return mark


def compared(kind: str, script: Script, letters: Letters, gone: Iterable[int] = (), how: str = "died") -> Verdict:
    """Whether each datagram of ``script`` was received once, where it was to go, as it was sent.

    What is from or to a node that is ``gone`` may be missing; ``how`` says what became of it.
    """
    sent = fingerprints(script.destination, script.source, script.length, script.at, script.data)
    came = fingerprints(letters.node, letters.source, letters.length, letters.at, letters.data)
    known, first, copies = np.unique(sent, return_index=True, return_counts=True)
    place = np.minimum(np.searchsorted(known, came), max(0, len(known) - 1))
    found = known[place] == came if len(known) else np.zeros(len(came), bool)
    counts = np.bincount(place[found], minlength=len(known))
    fewer = np.maximum(copies - counts, 0)
    of_gone = np.isin(script.source, [*gone]) | np.isin(script.destination, [*gone])
    missing, excused = int(fewer.sum()), int(fewer[of_gone[first]].sum())
    some = f"{excused:,} from or to nodes that {how}"
    doubled = int(np.maximum(counts - copies, 0).sum())
    strange = int((~found).sum())
    if missing > excused or doubled or strange:
        told = f" ({some})" if excused else ""
        return Verdict(
            good=False,
            text=f"{kind}: not received as sent: {missing:,} datagrams missing{told}, {doubled:,} more than once, "
            f"{strange:,} altered or at the wrong node",
        )
    size = int(script.length.sum())
    text = f"{kind}: {len(script):,} datagrams, {size:,} bytes, received as sent, each once"
    if excused:
        text += f", but for {some}"
    return Verdict(good=True, text=text)


def sent_and_compared(kind: str, script: Script, system: System) -> Generator[Script, Letters, Verdict]:
    """The phases of a workload that sends ``script`` and nothing else."""
    letters = yield script
    dead = {death.node for death in system.faults.deaths}
    suspects = {notice.died for notice in system.faults.notices} - dead
    return compared(kind, script, letters, dead | suspects, "died or were declared dead" if suspects else "died")
