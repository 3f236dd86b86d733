"""`scripts/safety`: its systems are legal and rough, what is sound passes, and what is not is found."""

import json
import subprocess
import sys

import numpy as np
import pytest

from lethe.spec import trace
from lethe.spec.events import Event
from tests.conftest import SCRIPTS


@pytest.fixture(scope="module")
def safety(script):
    module = script("safety")
    # Parts of a third.
    module.SENDING, module.LIMIT = 20_000, 60_000
    return module


@pytest.fixture(scope="module")
def part(safety):
    """A part on a wire with few cells, and with fewer resets, so that there are long streams to alter."""
    often, safety.RESETS = safety.RESETS, 2
    drawn = (safety.drawn(seed) for seed in range(300))
    system = next(system for system in drawn if (system.nodes, system.flow.cells) == (2, 4))
    safety.RESETS = often
    return safety.played(system)


def test_every_part_loses_flips_and_resets(safety):
    kinds, deaths, absences, stalls = set(), 0, 0, 0
    for seed in range(300):
        system = safety.drawn(seed)
        faults = system.faults
        by_node = [sum(reset.node == node for reset in faults.resets) for node in range(system.nodes)]
        assert faults.loss == 0.3 and faults.flip > 0 and max(by_node) >= 30
        kinds.add((system.topology.kind, system.nodes))
        deaths, absences, stalls = (
            deaths + len(faults.deaths),
            absences + len(faults.absences),
            stalls + len(faults.stalls),
        )
    assert len(kinds) == 6 and min(deaths, absences, stalls) > 20
    assert safety.drawn(7) == safety.drawn(7) != safety.drawn(17)


def test_what_is_sound_is_not_found(safety, part):
    golden, events = part
    result = safety.judged(golden, events)
    assert not result.found and (result.parts, result.cycles) == (1, golden.cycle)
    kind = trace.EVENT.of(events["word"])
    assert result.messages == (kind == Event.FLOW_SEND).sum() > 50
    assert result.placed == (kind == Event.FLOW_PLACE).sum() > 20


def altered(events: np.ndarray, event: Event, change) -> np.ndarray:
    """The rows of one event about another node changed: ``change(words, cycles)`` returns words."""
    events = events.copy()
    rows = np.flatnonzero(trace.EVENT.of(events["word"]) == event)
    events["word"][rows] = change(events["word"][rows], events["cycle"][rows])
    return events


def swapped(words: np.ndarray, cycles: np.ndarray) -> np.ndarray:
    """Two messages of a stream, placed one soon after the other, in each other's place."""
    stream = words >> np.uint64(trace.PEER.shift)
    pairs = [
        (cycles[later] - cycles[at], at, later)
        for at in range(len(words))
        for later in np.flatnonzero(stream[at + 1 :] == stream[at])[:1] + at + 1
    ]
    _, at, later = min(pairs)
    words = words.copy()
    words[[at, later]] = words[[later, at]]
    return words


def elsewhere(words: np.ndarray, _) -> np.ndarray:
    """What is taken has the port beside its own: a bit of ``extra``, above the index."""
    return words ^ np.uint64(1 << trace.EXTRA.shift + 8)


@pytest.mark.parametrize(
    ("event", "change", "name"),
    [(Event.FLOW_PLACE, swapped, "disordered"), (Event.FLOW_TAKE, elsewhere, "altered")],
)
def test_what_is_not_sound_is_found(safety, part, event, change, name):
    golden, events = part
    result = safety.judged(golden, altered(events, event, change))
    assert result.found[name] and any(f": {name}: cycle " in case for case in result.cases)


def test_a_message_that_is_placed_twice_is_found(safety, part):
    golden, events = part
    kind = trace.EVENT.of(events["word"])
    whole = events
    for event in (Event.FLOW_COMMIT, Event.FLOW_PLACE):
        row = events[np.flatnonzero(kind == event)[4:5]].copy()
        row["cycle"] += 1
        whole = np.concatenate([whole, row])
    assert safety.judged(golden, whole).found["doubled"]


def test_an_over_run_port_is_found(safety, part):
    """Nothing is ever taken."""
    golden, events = part
    kept = events[trace.EVENT.of(events["word"]) != Event.FLOW_TAKE]
    assert safety.judged(golden, kept).found["overrun"]


def test_a_campaign_adds_up_and_says_so(safety, part, monkeypatch, tmp_path, capsys):
    golden, events = part
    one = safety.judged(golden, events)
    monkeypatch.setattr(safety, "played", lambda system: part)
    path = tmp_path / "found.json"
    assert safety.main(["--processes", "1", "--messages", str(3 * one.messages), "--json", str(path)]) == 0
    out, error = capsys.readouterr()
    assert f"{3 * one.messages:,} messages of 3 systems" in out and out.endswith("over-run, with a wrong bit\n")
    assert "3 systems" in error and json.loads(path.read_text())["placed"] == 3 * one.placed
    bad = golden, altered(events, Event.FLOW_PLACE, swapped)
    monkeypatch.setattr(safety, "played", lambda system: bad)
    assert safety.main(["--processes", "1", "--messages", "1"]) == 1
    assert "disordered: cycle " in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [["--messages", "-1"], ["--seconds", "x"], ["--first"], ["--processes", "0"]])
def test_wrong_arguments(safety, arguments, capsys):
    with pytest.raises(SystemExit) as ended:
        safety.main(arguments)
    assert ended.value.code == 2 and "Traceback" not in capsys.readouterr().err


def test_time_ends_a_campaign(safety, part, monkeypatch, capsys):
    clock = iter(range(0, 10_000, 40))
    monkeypatch.setattr(safety.time, "monotonic", lambda: next(clock))
    monkeypatch.setattr(safety, "played", lambda system: part)
    assert safety.main(["--processes", "1", "--seconds", "100"]) == 0
    assert " systems (" in capsys.readouterr().out


@pytest.mark.full
def test_the_sums_do_not_depend_on_the_processes(tmp_path):
    """Whole parts in processes of their own: as many messages, of as many systems, as in one."""
    found = []
    for processes in ("1", "2"):
        path = tmp_path / processes
        arguments = ["--messages", "3000", "--first", "7", "--processes", processes, "--json", str(path)]
        subprocess.run([sys.executable, str(SCRIPTS / "safety.py"), *arguments], check=True)
        found.append(json.loads(path.read_text()))
    assert found[0] == found[1] and found[0]["messages"] >= 3000


def test_a_reset_of_a_receiver_that_has_no_data_under_way(safety, monkeypatch):
    """Its sender has no credit left, so that nothing is rejected: the streams must begin again all the same."""
    monkeypatch.setattr(safety, "SENDING", 60_000)
    monkeypatch.setattr(safety, "LIMIT", 200_000)
    golden, _ = safety.played(safety.drawn(53))
    assert golden.drained
