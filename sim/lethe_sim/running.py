"""A run of the golden model: in chunks, its events streamed to a trace, its deliveries put together."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lethe.spec.config import System
from lethe.spec.events import Counter
from lethe.spec.trace import trace_words

from .golden.model import Golden
from .trace import Meta, TraceWriter, summed_counters
from .workloads import file

#: Trace words of a run that are kept for its waveform, in bytes; a longer run's waveform has no flits.
MOST_WORD_BYTES = 512 << 20
_CHUNK_SECONDS = 0.3


@dataclass(frozen=True, kw_only=True)
class Ran:
    """What a run left.

    Attributes
    ----------
    meta : metadata of its trace
    seconds : how long it took, without compiling or loading the model
    wrong : datagrams in whose payload the checkers saw a wrong bit
    received : the file, if it carried one
    words : trace words, if they were wanted and fitted in `MOST_WORD_BYTES`
    """

    meta: Meta
    seconds: float
    wrong: int
    received: file.Received | None = None
    words: np.ndarray | None = None


def run(
    system: System,
    trace: Path,
    *,
    progress: Callable[[str, str, int, int], None] | None = None,
    keep_words: bool = False,
) -> Ran:
    """Run ``system`` until it has drained or its cycles are over, and write its trace.

    ``progress`` is called with a phase, its state in words, how much is done, and of how much.  Nothing is written if
    the run is interrupted.  Raises `WorkloadError` and `TraceError`.
    """
    say = progress or (lambda phase, what, done, total: None)
    data = file.read(system) if system.workload.kind == "file" else None
    script = file.script_for(system) if data is not None else None
    started = time.monotonic()
    limit, kept, words = system.run.cycles, 0, []
    expected = _expected(system, data)
    with TraceWriter(trace, system) as writer:
        say("compiling the model (once)", "", 0, 0)
        golden = Golden(system, script, record=True)
        # The first cycle alone, because it compiles the model or loads it: that is not the run's time.
        chunk = 1
        while golden.cycle < limit and not golden.drained:
            chunk = min(chunk, limit - golden.cycle)
            rows = None
            if keep_words:
                rows = np.zeros((chunk, trace_words(system.graph)), np.uint64)
                kept += rows.nbytes
                keep_words = kept <= MOST_WORD_BYTES
            began = time.monotonic()
            ran = golden.run(chunk, until_drained=True, words=rows)
            writer.append(golden.take_events())
            if rows is not None:
                words.append(rows[:ran])
            spent = time.monotonic() - began
            if golden.cycle == 1:
                chunk, started = 64, time.monotonic()
            else:
                chunk = max(1, min(2 * chunk if spent < _CHUNK_SECONDS else chunk // 2, 1 << 20))
            delivered = int(golden.counters[:, [Counter.DELIVERED, Counter.DELIVERED_BE]].sum())
            done = (delivered, expected) if expected else (golden.cycle, limit)
            say("running", f"cycle {golden.cycle:,}, {delivered:,} delivered", *done)
        sums = golden.sums
        meta = writer.finish(
            cycles=golden.cycle,
            drained=golden.drained,
            digest=golden.digest,
            counters=summed_counters(
                golden.counters,
                golden.router_counters,
                golden.link_counters,
                sums=sums if script is None else None,
            ),
        )
    received = None
    if data is not None:
        received = file.reassemble(system, data, ((d.node, d.source, d.payload) for d in golden.deliveries))
    return Ran(
        meta=meta,
        seconds=time.monotonic() - started,
        wrong=int(sums["wrong"].sum()),
        received=received,
        words=np.concatenate(words) if words and keep_words else None,
    )


def _expected(system: System, data: bytes | None) -> int:
    """Datagrams that will be sent; 0 if that is not known."""
    if data is not None:
        return sum(1 for _ in file.cut(system, data))
    load = system.workload
    return 0 if load.stop else load.count * system.nodes


def told(system: System, ran: Ran) -> str:
    """The run in two lines."""
    meta = ran.meta
    rate = meta.cycles * system.nodes / max(ran.seconds, 1e-9) / 1e6
    lines = [
        f"{meta.run}: {meta.cycles:,} cycles of {system.nodes:,} nodes in {ran.seconds:.1f} s "
        f"({rate:.2g} M node-cycles/s with the trace), {'drained' if meta.drained else 'not drained'}",
        f"  {meta.events:,} events, digest {meta.digest:016x}",
    ]
    return "\n".join(lines)
