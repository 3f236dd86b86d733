"""A run of the golden model: in chunks, its events streamed to a trace, its workload judged."""

import time
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from lethe.spec.config import System
from lethe.spec.events import Counter

from .files import WriteError, whole
from .golden.model import Golden
from .trace import Meta, TraceWriter, summed_counters
from .workloads import Play, Verdict, build

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
    verdict : whether the workload came out right; None for the generator, whose checkers say it
    words : trace words, if they were wanted and fitted in `MOST_WORD_BYTES`
    packets : messages in its capture
    unwritten : why its capture could not be written
    """

    meta: Meta
    seconds: float
    wrong: int
    verdict: Verdict | None = None
    words: np.ndarray | None = None
    packets: int = 0
    unwritten: list[OSError] = field(default_factory=list)


def begin(system: System, tapped: Sequence[int] = ()) -> tuple[Golden, Play]:
    """The golden model of a system, whose links ``tapped`` are tapped, and its workload."""
    play = Play(build(system))
    return Golden(system, play.script, record=True, tapped=tapped), play


def advance(golden: Golden, play: Play, cycles: int, words: np.ndarray | None = None) -> int:
    """Run up to ``cycles`` cycles, until all is over; how many ran.  Their trace words go to ``words``."""
    first = golden.cycle
    for size, until_drained in play.strides(golden, cycles):
        part = None if words is None else words[golden.cycle - first :][:size]
        golden.run(size, until_drained=until_drained, words=part)
    return golden.cycle - first


def finish(writer: TraceWriter, golden: Golden, play: Play) -> Meta:
    """Complete the trace of a run."""
    # Only the generators' checkers look at every payload.
    sums = golden.sums if play.workload is None else None
    counters = summed_counters(
        golden.counters, golden.router_counters, golden.link_counters, sums, golden.service_counters
    )
    return writer.finish(cycles=golden.cycle, drained=golden.drained, digest=golden.digest, counters=counters)


def run(
    system: System,
    trace: Path,
    *,
    progress: Callable[[str, str, int, int], None] | None = None,
    keep_words: bool = False,
    force: bool = False,
    pcap: Path | None = None,
    links: Sequence[int] = (),
) -> Ran:
    """Run ``system`` until it has drained or its cycles are over, and write its trace.

    ``progress`` is called with a phase, its state in words, how much is done, and of how much.  Nothing is written if
    the run is interrupted; ``force`` lets the trace replace a file that is none.  Raises `WorkloadError` and
    `TraceError`.

    Parameters
    ----------
    pcap : write what crosses the links ``links`` there, as pcapng
    """
    say = progress or (lambda phase, what, done, total: None)
    started = time.monotonic()
    limit, kept, words = system.run.cycles, 0, []
    say("compiling the model (once)", "", 0, 0)
    golden, play = begin(system, links if pcap else ())
    unwritten: list[OSError] = []
    with (
        TraceWriter(trace, system, force=force) as writer,
        _capture(pcap, system, links, unwritten) as capture,
    ):
        expected = play.workload.expected if play.workload else _expected(system)
        # The first cycle alone, because it compiles the model or loads it: that is not the run's time.
        chunk = 1
        while not play.over and golden.cycle < limit:
            chunk = min(chunk, limit - golden.cycle)
            rows = None
            if keep_words:
                rows = np.zeros((chunk, system.layout.words), np.uint64)
                kept += rows.nbytes
                keep_words = kept <= MOST_WORD_BYTES
            began = time.monotonic()
            ran = advance(golden, play, chunk, rows)
            events = golden.take_events()
            writer.append(events)
            if capture is not None:
                capture.take(golden, events)
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
        meta = finish(writer, golden, play)
        if capture is not None:
            capture.finish(golden, golden.take_events())
    return Ran(
        meta=meta,
        seconds=time.monotonic() - started,
        wrong=int(golden.sums["wrong"].sum()),
        verdict=play.verdict(golden),
        words=np.concatenate(words) if words and keep_words else None,
        packets=capture.written if capture is not None else 0,
        unwritten=unwritten,
    )


@contextmanager
def _capture(pcap: Path | None, system: System, links: Sequence[int], unwritten: list[OSError]):
    """The writer of a capture, if one is wanted; its errors go to ``unwritten`` once the run has begun."""
    if pcap is None:
        yield None
        return
    from .wireshark.capture import CaptureWriter

    begun = False
    try:
        with whole(pcap) as part, part.open("wb") as file:
            writer = CaptureWriter(file, system, list(links))
            begun = True
            yield writer
    except WriteError as error:
        if not begun:
            raise
        unwritten.append(error)


def _expected(system: System) -> int:
    """Datagrams that the generators will send; 0 if that is not known."""
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
