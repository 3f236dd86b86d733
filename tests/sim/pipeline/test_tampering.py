"""Whatever is altered in a trace, the audit says so: every column of every sort of row, rows, and metadata."""

import json
import random
from dataclasses import asdict

import numpy as np
import pyarrow as pa
import pytest

from lethe.spec.config import System
from lethe.spec.events import Cause, Drop, Event, Status
from lethe.spec.stages import ACTS, SHOWN
from lethe.spec.toml import dump
from lethe.spec.wire import unpack_uid
from lethe_sim.golden.model import Golden
from lethe_sim.ledger.audit import BROKEN, ONCE
from lethe_sim.ledger.conclude import whole
from lethe_sim.ledger.here import audit as audit_trace
from lethe_sim.ledger.here import judged
from lethe_sim.metrics import of_trace
from lethe_sim.trace import RAW_EVENT, SCHEMA, TraceError, decode, digest, encode, open_trace
from lethe_sim.trace.check import RowCheck, Seen
from lethe_sim.trace.ladder import text_ladder
from lethe_sim.trace.vcd import write_vcd
from tests.helpers.cell_changes import MIXED, change_cells
from tests.helpers.golden_runs import RUNS
from tests.helpers.golden_trace import OPTIONS, write_golden, write_options
from tests.helpers.make_trace import LENIENT, restate, tamper

KINDS = {
    "mixed": MIXED,
    **{name: RUNS[name] for name in ("narrow", "mesh", "queued", "wire")},
    **{f"{bits} bits": {"topology": {"kind": "tree", "levels": 2}, "wire": {"flit_bits": bits}} for bits in (32, 128)},
}


def system_of(name: str) -> System:
    return System.make(name, **({"run": {"name": name, "seed": 3}} | KINDS[name]))


@pytest.fixture(scope="module", params=KINDS)
def run(request) -> tuple[System, np.ndarray, pa.Table, int]:
    """(system, raw events in their order, rows, cycles) of a run of the golden model."""
    system = system_of(request.param)
    model = Golden(system, record=True)
    model.run(4000)
    events = model.take_events()
    assert digest(events) == model.digest
    events = events[np.lexsort((events["lane"], events["unit"], events["cycle"]))]
    return system, events, decode(events, system), model.cycle


def test_rows_hold_all_of_a_raw_event(run):
    system, events, table, _ = run
    assert (encode(table, system) == events).all()
    assert set(np.unique(events["unit"])) & set(range(system.nodes)) and len(events) > 100


def test_whatever_fills_a_word_comes_back():
    """Words that no run has shown: every bit that a lane has may be set."""
    system = system_of("mixed")
    chance = np.random.default_rng(1)
    events = np.zeros(5000, RAW_EVENT)
    events["cycle"] = np.arange(len(events))
    units = system.nodes + system.graph.routers + system.graph.link_count
    events["unit"] = chance.integers(0, units, len(events))
    events["word"] = chance.integers(0, 1 << 64, len(events), np.uint64) & chance.integers(0, 1 << 64, 5000, np.uint64)
    events["uid"] = chance.integers(0, 1 << 60, len(events)) * (events["unit"] < system.nodes)
    events["word"][events["unit"] >= system.nodes + system.graph.routers] &= np.uint64(0xFF)
    assert (encode(decode(events, system), system) == events).all()


def test_a_good_run_has_nothing_odd(run):
    system, events, table, cycles = run
    seen = RowCheck(system, table["run"][0].as_py(), cycles).seen(table)
    assert not seen.counts and seen.digest == digest(events) and seen.rows == len(table)
    assert (seen.least, seen.most) == (events["cycle"].min(), events["cycle"].max())


def altered(column: pa.ChunkedArray, how: str) -> list:
    values = column.to_pylist()
    match how:
        case "null":
            return [None] * len(values)
        case "next row's":
            return values[1:] + values[:1]
        case "extreme":
            return [(1 << column.type.bit_width - 1) - 1] * len(values)
        case "negative":
            return [-1] * len(values)
    step = {"+1": 1, "-1": -1, "bit 9": 512}[how]
    most = (1 << column.type.bit_width - 1) - 1
    return [step if value is None else max(-1, min(value + step, most)) for value in values]


@pytest.mark.parametrize("how", ["+1", "-1", "bit 9", "null", "next row's", "extreme", "negative"])
def test_no_cell_can_be_altered_unseen(run, how):
    """Every cell of every row, each altered alone: the row is odd, or its raw event, and so the digest, is another."""
    system, events, table, cycles = run
    check = RowCheck(system, table["run"][0].as_py(), cycles)
    for place, name in enumerate(SCHEMA.names):
        if name == "run":
            continue
        before = table[name].to_pylist()
        values = altered(table[name], how)
        other = table.set_column(place, LENIENT.field(name), pa.array(values, SCHEMA.field(name).type))
        raw = encode(other, system)
        odd = check._garbled(other, raw) | ~check._within(raw)
        unseen = ~odd & (raw == events) & np.array([a != b for a, b in zip(before, values, strict=True)])
        assert not unseen.any(), (name, table.slice(int(np.flatnonzero(unseen)[0]), 1).to_pylist())


# Whole traces.


@pytest.fixture(scope="module")
def mixed(tmp_path_factory):
    path = tmp_path_factory.mktemp("tampering") / "mixed.parquet"
    write_golden(path, System.make("mixed", **MIXED))
    return path


def found(path) -> set[str]:
    return {name for name, count in seen(path).counts.items() if count}


def seen(path) -> Seen:
    """What the rows of a trace come to."""
    trace = open_trace(path, judged=True)
    return whole(trace, trace.groups()[0], judged(trace).seen)


def test_the_good_trace_is_good(mixed):
    result = audit_trace(mixed)
    assert result.verdict == ONCE and result.by_reset > 0, result.text()
    events = set(open_trace(mixed).table()["event"].to_pylist())
    assert {Event.TAKE, Event.RESET, Event.LOST, Event.REPEAT, Event.FORWARD} <= events


def of_event(event: Event, **change):
    def alter(rows):
        row = next(row for row in rows if row["event"] == event)
        row.update({name: row[name] + value for name, value in change.items()})

    return alter


def without(*events: Event):
    def remove(rows):
        rows.remove(next(row for row in rows if row["event"] in events))

    return remove


def without_acceptance(rows):
    """Of a datagram that is delivered, with no reset of its nodes."""
    reset = {row["unit"] for row in rows if row["event"] == Event.RESET}
    delivered = {row["uid"] for row in rows if row["event"] == Event.DELIVER and row["unit"] not in reset}
    rows.remove(
        next(r for r in rows if r["event"] == Event.ACCEPT and r["unit"] not in reset and r["uid"] in delivered)
    )


#: Alterations after which digest and number of rows are those of the rows; and what must be found.
CONSISTENT = {
    "an acceptance is missing": (without_acceptance, "invented"),
    "a uid of -1": (lambda rows: next(r for r in rows if r["event"] == Event.DELIVER).update(uid=-1), "garbled"),
    "a cycle is null": (change_cells({"cycle": None}), "garbled"),
    "an event is null": (change_cells({"event": None}), "garbled"),
    "a row is doubled": (lambda rows: rows.insert(50, dict(rows[50])), "misplaced"),
    "a huge cycle": (change_cells({"cycle": 1 << 62}), "outside"),
    "no rows": (lambda rows: rows.clear(), "reset"),
    "an event of no code": (change_cells({"event": 77}), "garbled"),
    "all of a node": (lambda rows: rows.__setitem__(slice(None), [r for r in rows if r["unit"] != 2]), "invented"),
}
#: Alterations after which the metadata are as they were.
AGAINST_THE_DIGEST = {
    "length of a Send": of_event(Event.SEND, length=1),
    "uid of a repeat": of_event(Event.REPEAT, uid=1),
    "cycle of a completion": of_event(Event.COMPLETE, cycle=1),
    "cycle of a take": of_event(Event.TAKE, cycle=1),
    "peer of a completion": of_event(Event.COMPLETE, peer=1),
    "tag of a completion": of_event(Event.COMPLETE, tag=1),
    "output of a router": of_event(Event.FORWARD, detail=1),
    "cycle of a router": of_event(Event.FORWARD, cycle=1),
    "link of a loss": of_event(Event.LOST, unit=1),
}


@pytest.mark.parametrize("name", CONSISTENT)
def test_rows_that_are_missing_doubled_null_or_impossible(mixed, tmp_path, name):
    change, finding = CONSISTENT[name]
    path, trace = tmp_path / "t.parquet", open_trace(mixed)
    rows = trace.table().to_pylist()
    change(rows)
    table = pa.Table.from_pylist(rows, LENIENT)
    path.write_bytes(mixed.read_bytes())
    restate(path, rows=table, events=len(table), digest=digest(encode(table, trace.meta.system)))
    result = audit_trace(path)
    assert result.verdict == BROKEN and finding in {f.name for f in result.findings}, result.text()
    assert all("\n" not in example.text(result.layout) for f in result.findings for example in f.examples)


@pytest.mark.parametrize("name", AGAINST_THE_DIGEST)
def test_what_no_rule_forbids_the_digest_shows(mixed, tmp_path, name):
    path = tmp_path / "t.parquet"
    tamper(path, mixed, AGAINST_THE_DIGEST[name])
    restate(path, digest=open_trace(mixed).meta.digest)
    assert "changed" in found(path)


def test_a_part_is_removed_with_its_entry(mixed, tmp_path):
    path = tmp_path / "t.parquet"
    tamper(path, mixed, lambda rows: None, part_events=150)
    manifest = json.loads((path / "_trace.json").read_text())
    gone = manifest["parts"].pop(1)
    manifest["trace"]["events"] -= gone["events"]
    (path / gone["name"]).unlink()
    (path / "_trace.json").write_text(json.dumps(manifest))
    result = audit_trace(path)
    assert result.verdict == BROKEN and {"changed", "invented"} <= {f.name for f in result.findings}


def test_a_part_is_named_by_its_cycles(mixed, tmp_path):
    path = tmp_path / "t.parquet"
    tamper(path, mixed, lambda rows: None, part_events=300)
    manifest = json.loads((path / "_trace.json").read_text())
    manifest["parts"][2]["digest"] ^= 1
    (path / "_trace.json").write_text(json.dumps(manifest))
    trace = open_trace(path)
    (odd,) = seen(path).odd["changed"]
    assert trace.parts[2].name in odd.note and odd.cycle == trace.parts[2].first


OTHER = {
    "run": "another", "side": "rtl", "cycles": 10**6, "drained": False, "digest": 7, "events": 5, "counters": {},
    "lethe": "9", "config": "[topology]\nkind = 'wire'\n",
}  # fmt: skip


@pytest.mark.parametrize("key", OTHER)
def test_no_metadata_can_be_altered_unseen(mixed, tmp_path, key):
    path = tmp_path / "t.parquet"
    tamper(path, mixed, lambda rows: None)
    assert not found(path)
    restate(path, **{key: OTHER[key]}, seal=False)
    assert "changed" in found(path)


def test_readers_of_such_a_trace_say_so_in_a_line(mixed, tmp_path):
    path = tmp_path / "t.parquet"
    tamper(path, mixed, change_cells({"unit": 9999}))
    for read in (
        lambda: text_ladder(path, str(open_trace(path).table(filters=[("event", "=", 24)])["uid"][0].as_py())),
        lambda: write_vcd(path, tmp_path / "t.vcd"),
        lambda: of_trace(path),
    ):
        try:
            read()
        except TraceError as error:
            assert "a row of cycle" in str(error) and "lethe report" in str(error) and "\n" not in str(error)


# Options: restarts that are told, silent nodes, deaths, absences, control slots, incarnations of sources.


@pytest.fixture(scope="module")
def options(tmp_path_factory):
    path = tmp_path_factory.mktemp("tampering") / "options.parquet"
    write_options(path)
    return path


def test_the_good_trace_with_options_is_good(options):
    result = audit_trace(options)
    assert result.verdict == ONCE and result.by_reset > 0, result.text()
    rows = open_trace(options).table().to_pylist()
    assert {Event.REJECT, Event.GIVE_UP, Event.RESET} <= {row["event"] for row in rows}
    ends = {divmod(row["detail"], 16) for row in rows if row["event"] == Event.COMPLETE}
    assert {(1, Cause.RESTARTED), (1, Cause.SILENT), (3, Cause.SILENT), (2, Cause.DESTINATION)} <= ends


def of_rows(rows, event: Event, **wanted) -> list[dict]:
    return [row for row in rows if row["event"] == event and all(row[name] == is_ for name, is_ in wanted.items())]


def ended(status: Status, cause: Cause, now: tuple[Status, Cause], *, control: bool | None = None):
    """The last datagram that ended with one status and cause is said to have ended with others."""
    first_control = OPTIONS["ni"]["slots"] - OPTIONS["ni"]["control_slots"]

    def change(rows):
        ends = of_rows(rows, Event.COMPLETE, detail=status << 4 | cause)
        end = [e for e in ends if control in (None, unpack_uid(e["uid"])[2] >= first_control)][-1]
        end["detail"] = now[0] << 4 | now[1]
        (given_up,) = of_rows(rows, Event.GIVE_UP, uid=end["uid"])
        given_up["detail"] = int(now[1])

    return change


def _reject_without_a_drop(rows):
    (drop,) = of_rows(rows, Event.DROP, uid=of_rows(rows, Event.REJECT)[0]["uid"], detail=Drop.INCARNATION)
    drop["detail"] = int(Drop.TABLE_FULL)


def _taken_from_no_life(rows):
    of_rows(rows, Event.TAKE, unit=0)[3]["detail"] += 1


def _taken_from_an_earlier_life(rows):
    """The host is shown the incarnation that a node had before its reset."""
    row = next(row for row in of_rows(rows, Event.TAKE, unit=0, peer=2) if row["cycle"] > 400)
    assert row["detail"] == 2
    row["detail"] = 1


def _after_death(rows):
    rows.append(dict(of_rows(rows, Event.FORGOTTEN, unit=3)[0], cycle=700))


def _death_without_its_event(rows):
    (row,) = of_rows(rows, Event.RESET, unit=3)
    rows.remove(row)


_AWAY, _BACK = (OPTIONS["faults"]["absences"][0][name] for name in ("start", "end"))


def _granted(cycle: int):
    """A message whose grant is in ``cycle``, of the node that is away."""

    def change(rows):
        rows.append(dict(of_rows(rows, Event.FORGET, unit=1)[0], cycle=cycle + SHOWN))

    return change


def _arrived(cycle: int):
    """A message whose last flit arrives in ``cycle``, at the node that is away."""

    def change(rows):
        rows.append(dict(of_rows(rows, Event.FORGOTTEN, unit=1)[0], cycle=cycle + ACTS))

    return change


def _fewer_repeats(rows):
    """Of the repeats to a node that fell silent, all but one are missing."""
    end = of_rows(rows, Event.GIVE_UP, detail=Cause.SILENT)[-1]
    repeats = of_rows(rows, Event.REPEAT, unit=end["unit"], peer=end["peer"])
    for row in [row for row in repeats if row["cycle"] < end["cycle"]][1:]:
        rows.remove(row)


def _heard_meanwhile(rows):
    """A sign of the silent node comes with every repeat to it."""
    end = of_rows(rows, Event.GIVE_UP, detail=Cause.SILENT)[-1]
    shown = {(row["cycle"], row["unit"], row["port"]) for row in rows}
    for repeat in of_rows(rows, Event.REPEAT, unit=end["unit"], peer=end["peer"]):
        place = repeat["cycle"] + 1, repeat["unit"], repeat["port"]
        if repeat["cycle"] < end["cycle"] and place not in shown:
            rows.append(dict(repeat, cycle=repeat["cycle"] + 1, event=int(Event.ACK_IGNORED), detail=0))


#: Alterations of rows, with a digest that fits → what must be found.
OF_OPTIONS = {
    "a REJECT is missing": (without(Event.REJECT), "disordered"),
    "a REJECT without a drop": (_reject_without_a_drop, "invented"),
    "a restart that nobody told": (
        ended(Status.UNKNOWN, Cause.SILENT, (Status.UNKNOWN, Cause.RESTARTED)), "disordered",
    ),
    "a class is refused in a data slot": (
        ended(Status.REJECTED, Cause.DESTINATION, (Status.REJECTED, Cause.CLASS), control=False), "misreported",
    ),
    "silence is UNKNOWN, but nothing was sent": (
        ended(Status.NEVER_SENT, Cause.SILENT, (Status.UNKNOWN, Cause.SILENT)), "misreported",
    ),
    "silence is NEVER_SENT, but something was sent": (
        ended(Status.UNKNOWN, Cause.SILENT, (Status.NEVER_SENT, Cause.SILENT)), "misreported",
    ),
    "silence after too few repeats": (_fewer_repeats, "misreported"),
    "silence of a node that was heard": (_heard_meanwhile, "misreported"),
    "a restart is NEVER_SENT": (
        ended(Status.UNKNOWN, Cause.RESTARTED, (Status.NEVER_SENT, Cause.RESTARTED)), "misreported",
    ),
    "a status with the cause of another": (
        ended(Status.UNKNOWN, Cause.SILENT, (Status.UNKNOWN, Cause.CLASS), control=True), "misreported",
    ),
    "the incarnation of a take": (_taken_from_no_life, "untaken"),
    "the incarnation of a take is of an earlier life": (_taken_from_an_earlier_life, "untaken"),
    "an event after death": (_after_death, "dead"),
    "a death without its event": (_death_without_its_event, "reset"),
    "sent at the start of an absence": (_granted(_AWAY), "dead"),
    "sent at the end of an absence": (_granted(_BACK - 1), "dead"),
    "heard at the start of an absence": (_arrived(_AWAY), "dead"),
    "heard at the end of an absence": (_arrived(_BACK - 1), "dead"),
}  # fmt: skip


@pytest.mark.parametrize("name", OF_OPTIONS)
def test_options_are_judged(options, tmp_path, name):
    change, finding = OF_OPTIONS[name]
    tamper(tmp_path / "t.parquet", options, change, counters={})
    result = audit_trace(tmp_path / "t.parquet")
    assert finding in {found.name for found in result.findings}, result.text()


def test_a_message_just_outside_an_absence_is_none_of_it(options, tmp_path):
    """What was granted, or arrived, in the last cycle before it, or in the first after it."""
    for change in (moved(cycle) for moved in (_granted, _arrived) for cycle in (_AWAY - 1, _BACK)):
        tamper(tmp_path / "t.parquet", options, change, counters={})
        assert "dead" not in {found.name for found in audit_trace(tmp_path / "t.parquet").findings}


@pytest.mark.parametrize(
    ("option", "cause"),
    [
        ({"ni": {"reject": False}}, Cause.RESTARTED),
        ({"timers": {"silent_after": 0}}, Cause.SILENT),
        ({"timers": {"silent_after": 9}}, Cause.SILENT),
    ],
)
def test_an_end_that_the_configuration_does_not_have(options, tmp_path, option, cause):
    path = tmp_path / "t.parquet"
    tamper(path, options, lambda rows: None, counters={})
    assert audit_trace(path).verdict == ONCE
    restate(path, config=dump(System.make("options", **OPTIONS).replace(**option)))
    found = {finding.name: finding for finding in audit_trace(path).findings}
    rows = open_trace(path, judged=True).table().to_pylist()
    ends = {row["uid"] for row in of_rows(rows, Event.COMPLETE) if row["detail"] & 15 == cause}
    assert {case.uid for case in found["misreported"].examples} <= ends and found["misreported"].count > 1


def mutants(path, seed: int, count: int):
    """(what was done, a table, metadata to change) of random alterations."""
    chance = random.Random(seed)
    trace = open_trace(path)
    table, meta = trace.table().cast(LENIENT), asdict(trace.meta)
    for _ in range(count):
        rows = table.to_pylist()
        at, other = chance.randrange(len(rows)), chance.randrange(len(rows))
        column = chance.choice(SCHEMA.names[1:])
        value = chance.choice([None, 0, -1, 1, 32_767, rows[other][column], (rows[at][column] or 0) + 1])
        changed = {}
        match chance.choice(["cell", "cell", "cell", "remove", "double", "swap", "meta"]):
            case "cell":
                rows[at][column] = value
                what = f"{column} of row {at}: {value}"
            case "remove":
                del rows[at : at + chance.choice([1, 1, 50])]
                what = f"removed from {at}"
            case "double":
                rows.insert(at, dict(rows[other]))
                what = f"row {other} doubled at {at}"
            case "swap":
                rows[at], rows[other] = rows[other], rows[at]
                what = f"rows {at} and {other} swapped"
            case "meta":
                key = chance.choice(list(OTHER))
                changed = {key: OTHER[key]} if meta[key] != OTHER[key] else {}
                what = f"metadata {changed}"
        after = pa.Table.from_pylist(rows, LENIENT)
        if changed or not after.equals(table):
            yield what, after, changed


def _survives(mixed, tmp_path, seed: int, count: int) -> None:
    path = tmp_path / "t.parquet"
    for number, (what, table, changed) in enumerate(mutants(mixed, seed, count)):
        path.write_bytes(mixed.read_bytes())
        # Every second one tells the number of its rows and their digest.
        fits = number % 2 and not changed
        told = {"events": len(table), "digest": digest(encode(table, open_trace(mixed).meta.system))} if fits else {}
        restate(path, rows=table, seal=bool(fits), **told, **changed)
        result = audit_trace(path)
        assert result.text()
        # A row that fits in with all rules, and whose digest fits, is another run's.
        # Rows that are swapped have the digest of rows that are not: these are not in order.
        named = {"changed", "garbled", "misplaced"} & {finding.name for finding in result.findings}
        assert fits or (result.verdict == BROKEN and named), (seed, what)


def test_random_alterations(mixed, tmp_path):
    _survives(mixed, tmp_path, 1, 6)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(10))
def test_many_random_alterations(mixed, tmp_path, seed):
    _survives(mixed, tmp_path, 100 + seed, 60)
