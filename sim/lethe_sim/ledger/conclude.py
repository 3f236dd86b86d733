"""The end of a judgement: from the summary of a whole trace to the result of its audit."""

from collections import Counter as Multiset

from lethe_sim.trace import Part, TraceReader
from lethe_sim.trace.check import RESET, Oddity, Seen, scheduled_resets

from .audit import BROKEN, ONCE, UNFINISHED, AuditResult, Example, Finding
from .counters import miscounted
from .findings import FINDINGS
from .group import Run
from .judge import EXAMPLES, Summary
from .services import AUDITED
from .sums import metrics

#: Finding: rows or metadata were changed after the trace was written.
CHANGED = "changed"


def conclude(trace: TraceReader, groups: list[tuple[int, int]], found: Summary) -> AuditResult:
    """The audit of a trace; ``groups`` are its row groups (`TraceReader.groups`), ``found`` what all of it came to."""
    meta, seen = trace.meta, whole(trace, groups, found.seen)
    run = Run.of(meta, seen.resets)
    counts, examples = Multiset(found.counts), {name: list(map(_example, cases)) for name, cases in found.found.items()}
    told: dict[str, list[Oddity]] = {}
    for name, note in miscounted(meta, run.system, _counted(found.events)):
        counts[name] += 1
        told.setdefault(name, []).append(Oddity(None, None, None, note))
    counts.update(seen.counts)
    for name, oddities in (told | seen.odd).items():
        examples[name] = [
            Example(run=meta.run, uid=odd.uid, cycle=odd.cycle, unit=odd.unit, peer=None, note=odd.note)
            for odd in oddities
        ] + examples.get(name, [])
    listed = tuple(
        Finding(name=name, about=about, count=counts[name], examples=tuple(examples[name][:EXAMPLES]))
        for name, about in FINDINGS.items()
        if counts[name]
    )
    return AuditResult(
        verdict=BROKEN if listed else ONCE if meta.drained else UNFINISHED,
        run=meta.run,
        side=meta.side,
        cycles=meta.cycles,
        layout=run.system.layout,
        findings=listed,
        by_reset=found.sums.counts["by_reset"],
        by_reset_examples=tuple(
            Example(
                run=meta.run,
                uid=row["uid"],
                cycle=row["accepted_at"],
                unit=row["source"],
                peer=row["destination"],
                note="delivered" if row["delivered_at"] is not None else "not delivered",
            )
            for row in found.by_reset
        ),
        metrics=metrics(found.sums, meta, found.events, found.overtaken),
        services=tuple(
            (service.name, audited.numbers(found.services.get(service.name, Multiset())))
            for service in run.system.services
            if (audited := AUDITED.get(service.unit))
        ),
    )


def _example(case: dict) -> Example:
    return Example(**{name: case[name] for name in ("run", "uid", "cycle", "unit", "peer", "note")})


def _counted(events: Multiset) -> Multiset:
    """How often each event, and each (event, detail), happened."""
    counted = Multiset()
    for (_, event, detail), count in events.items():
        counted[event, detail] += count
        counted[event] += count
    return counted


def whole(trace: TraceReader, groups: list[tuple[int, int]], pieces: dict[int, Seen]) -> Seen:
    """What all rows come to, by row group, with what parts and metadata say otherwise."""
    seen = Seen()
    for number, part in enumerate(trace.parts):
        rows = Seen()
        for place, (file, _) in enumerate(groups):
            if file == number:
                rows.follow(pieces[place])
        _hold_part(seen, rows, part)
    for place in range(len(groups)):
        seen.follow(pieces[place])
    _hold_run(seen, trace)
    return seen


def _hold_part(seen: Seen, rows: Seen, part: Part) -> None:
    where = f"part {part.name}, cycles {part.first} to {part.last}"
    if rows.digest != part.digest:
        note = f"{where}: its rows have digest {rows.digest:016x}, not {part.digest:016x}"
    elif (rows.rows, rows.least, rows.most) != (part.events, part.first, part.last):
        note = f"{where}: has {rows.rows} rows of cycles {rows.least} to {rows.most}, not {part.events}"
    else:
        return
    seen.found(CHANGED, [Oddity(part.first, None, None, note)], 1)


def _hold_run(seen: Seen, trace: TraceReader) -> None:
    meta = trace.meta
    if seen.digest != meta.digest:
        note = f"the rows have digest {seen.digest:016x}, the run had {meta.digest:016x}"
        seen.found(CHANGED, [Oddity(seen.least, None, None, note)], 1)
    if seen.rows != meta.events:
        seen.found(CHANGED, [Oddity(None, None, None, f"{seen.rows} rows, the run had {meta.events} events")], 1)
    if not meta.genuine:
        note = "the metadata were changed, such as the configuration, cycles or counters: their seal is another"
        seen.found(CHANGED, [Oddity(None, None, None, note)], 1)
    for unit, cycle in sorted(scheduled_resets(meta.system, meta.cycles).keys() - seen.resets):
        seen.found(RESET, [Oddity(cycle, unit, None, "a reset or death was scheduled, but did not happen")], 1)
