"""The way of a message of relay: every hop in the trace is an arrow, and its fate is what the rows say."""

from collections import Counter

import pytest

from lethe.spec.events import Event
from lethe.spec.overlay import Overlay
from lethe.spec.services.relay import Type
from lethe.spec.wire import unpack_uid
from lethe_sim.golden.model import Golden
from lethe_sim.report.ladder import draw_way
from lethe_sim.trace import TraceError, TraceWriter, open_trace
from lethe_sim.trace.relay_ladder import DIES, RelayHop, find_message, listing
from tests.helpers.golden_systems import make
from tests.helpers.html_balance import Balance
from tests.helpers.make_trace import tamper
from tests.helpers.relay_systems import deaths, relay_system

SYSTEMS = {
    "plain": {"relay": {"slots": 4}},
    "deaths": {"faults": deaths((1, 800), (0, 3000)) | {"loss": 0.05}, "relay": {"cells": 2, "buffers": 1}},
}


def written(path, golden, *, drained=False):
    with TraceWriter(path, golden.system) as writer:
        writer.append(golden.take_events())
        writer.finish(cycles=golden.cycle, drained=drained)
    return path


@pytest.fixture(scope="module")
def traces(tmp_path_factory):
    """name → the trace of a run of eight nodes."""
    found = {}
    for name, changed in SYSTEMS.items():
        golden = Golden(relay_system(**changed), record=True)
        golden.run(20_000)
        found[name] = written(tmp_path_factory.mktemp("relay") / f"{name}.parquet", golden)
    return found


def messages(path):
    """Name of each message → its rows, each with its node."""
    trace = open_trace(path)
    layout, found = trace.meta.system.layout, {}
    for row in trace.table().to_pylist():
        if row["unit"] >= layout.first_service and row["uid"]:
            name = ":".join(map(str, (*unpack_uid(row["uid"])[:3], row["tag"])))
            found.setdefault(name, []).append(row | {"node": layout.node_of(row["unit"])})
    return {name: rows for name, rows in found.items() if any(row["event"] == Event.RELAY_SEND for row in rows)}


@pytest.mark.parametrize("name", SYSTEMS)
def test_every_hop_is_an_arrow_with_its_fate(traces, name):
    """What is heard is heard once: the arrows say in which cycle, and these are the rows of the trace."""
    arrows = Counter()
    for which, rows in list(messages(traces[name]).items())[::7]:
        ladder = find_message(traces[name], f"relay:{which}")
        assert ladder.name == which
        sent = [
            (row["cycle"], row["node"], row["peer"])
            for row in rows
            if row["event"] in (Event.RELAY_HOP, Event.RELAY_TOLD)
        ]
        assert [(hop.launched, hop.sender, hop.receiver) for hop in ladder.hops] == sent
        heard = sorted((row["cycle"], row["node"]) for row in rows if row["event"] == Event.RELAY_HEARD)
        told = [(int(hop.fate.split()[-1]), hop.receiver) for hop in ladder.hops if "heard in" in hop.fate]
        assert sorted(told) == heard
        for hop in ladder.hops:
            assert (hop.arrived is None) == ("lost" in hop.fate or "not sent" in hop.fate or "under way" in hop.fate)
            assert hop.arrived is None or hop.launched < hop.arrived
            arrows[hop.name, hop.arrived is not None] += 1
    assert arrows["DATA", True] > 20 and arrows["ACKED", True] > 20
    assert (sum(count for (_, came), count in arrows.items() if not came) > 0) == (name == "deaths")


def test_nodes_are_in_the_order_of_the_way(traces):
    """Without deaths they are those of the overlay."""
    overlay, seen = Overlay(nodes=8, radix=2), set()
    for which, rows in messages(traces["plain"]).items():
        given = rows[0]
        way = overlay.path(given["node"], given["peer"])
        if len(way) not in seen:
            seen.add(len(way))
            assert find_message(traces["plain"], f"relay:{which}").nodes == way
    assert max(seen) >= 5


def test_marks(traces):
    """Deaths, notices and ends are on the lines of their nodes."""
    found, told = Counter(), {}
    for which, rows in messages(traces["deaths"]).items():
        if len(found) > 12:
            break
        ladder = find_message(traces["deaths"], f"relay:{which}")
        events = {row["event"] for row in rows}
        for text, event in (("posted", Event.RELAY_POST), ("given to relay", Event.RELAY_SEND)):
            assert (text in {mark.text for mark in ladder.marks}) == (event in events)
        for mark in ladder.marks:
            found[mark.text.split(" uid")[0]] += 1
            told.setdefault(mark.text, mark)
            assert mark.cycle <= mark.until and set(mark.nodes) <= set(ladder.nodes)
        assert ladder.gone.keys() <= {0, 1}
    assert found["ended ACCEPTED"] and found["taken by its host"] and found[DIES]
    assert found["told that node 1 is dead"] and found["told that node 1 is dead, promoted"]
    assert told["told that node 1 is dead, promoted"].nodes == (5,), "1 dies: 5 is promoted"


def test_text(traces):
    ladder = find_message(traces["deaths"])
    title, _, head, *lines = ladder.text().splitlines()
    assert title.startswith(f"message {ladder.name}: node {ladder.nodes[0]} to node {ladder.nodes[-1]}, ")
    assert head.split()[1:] == [word for node in ladder.nodes for word in ("node", str(node))]
    places = [12 + 12 * place for place in range(len(ladder.nodes))]
    for line, row in zip(lines, ladder.rows, strict=True):
        lost = getattr(row, "arrived", 0) is None
        assert ("╳" in line) == lost
        between = ()
        if isinstance(row, RelayHop):
            ends = sorted(ladder.nodes.index(node) for node in (row.sender, row.receiver))
            between = range(ends[0] + 1, ends[1])
        assert all(line[place] in "│┊●" for number, place in enumerate(places) if number not in between), line
    assert any("▶" in line for line in lines) and any("◀" in line for line in lines)
    after = next(number for number, row in enumerate(ladder.rows) if getattr(row, "text", "") == DIES)
    place = places[ladder.nodes.index(ladder.rows[after].nodes[0])]
    assert all(line[place] != "┊" for line in lines[: after + 1])
    assert any(line[place] == "┊" for line in lines[after + 1 :])
    # A node that died before the message came is gone from the start.
    early, began = places[ladder.nodes.index(1)], ladder.rows[0].cycle
    assert any(line[early] == "┊" for line in lines[:2]) == (ladder.gone[1] < began)


def test_a_message_acknowledged_with_a_later_one_says_so(traces):
    assert any(
        mark.text.startswith("ended ACCEPTED, by the ACKED of uid ")
        for name in messages(traces["deaths"])
        for mark in find_message(traces["deaths"], f"relay:{name}").marks
    )


def test_the_picture(traces):
    ladder = find_message(traces["deaths"])
    drawn = str(draw_way(ladder))
    Balance().feed(drawn)
    assert drawn.count('class="worm') == len(ladder.hops)
    assert drawn.count('class="cross"') == sum(hop.arrived is None for hop in ladder.hops)
    assert drawn.count("stroke-dasharray") == len(ladder.gone)
    assert all(f">node {node}<" in drawn for node in ladder.nodes)


def test_a_long_way_is_cut_in_the_middle(traces, monkeypatch):
    monkeypatch.setattr("lethe_sim.report.ladder.MOST_HOPS", 10)
    ladder = find_message(traces["deaths"])
    drawn = str(draw_way(ladder))
    assert f"{len(ladder.rows) - 10:,} more" in drawn


def test_names(traces):
    """The list names those with the most hops, and each can be asked for; a uid may be given whole."""
    lines = listing(traces["deaths"]).splitlines()
    assert len(lines) == 11 and lines[-1].startswith("of ")
    name, hops = lines[0].split()[:2]
    ladder = find_message(traces["deaths"], name)
    assert ladder == find_message(traces["deaths"])
    assert int(hops) == sum(hop.name == Type.DATA.name for hop in ladder.hops)
    prefix, uid = name.rsplit(":", 1)
    assert find_message(traces["deaths"], f"{prefix}:{int(uid) + (1 << 16)}") == ladder


@pytest.mark.parametrize("which", ["relay:", "relay:1:2:3", "relay:1:2:3:x", "relay:1:2:3:4:5", "relay:70000:1:0:0"])
def test_what_is_no_name(traces, which):
    with pytest.raises(TraceError, match="is no message; give relay:source:incarnation:slot:uid"):
        find_message(traces["plain"], which)


def test_what_is_not_there(traces, tmp_path):
    with pytest.raises(
        TraceError, match=r"no message 1:1:0:999 in this trace; `lethe ladder .* relay --list` names some"
    ):
        find_message(traces["plain"], "relay:1:1:0:999")
    bare = Golden(make(), record=True)
    bare.run(50)
    for ask in (find_message, listing):
        with pytest.raises(TraceError, match=r"its system has no \[relay\]; name a datagram"):
            ask(written(tmp_path / "bare.parquet", bare))
    quiet = Golden(relay_system(**SYSTEMS["plain"]), record=True)
    quiet.run(5)
    for ask in (find_message, listing):
        with pytest.raises(TraceError, match="no message of relay was ever sent"):
            ask(written(tmp_path / "quiet.parquet", quiet))


@pytest.mark.parametrize("event", [Event.RELAY_SEND, Event.RELAY_HOP, Event.RELAY_TOLD], ids=lambda event: event.name)
@pytest.mark.parametrize("peer", [8, 40_000, "itself"])
def test_a_row_that_names_no_other_node_is_refused(traces, tmp_path, event, peer):
    which = find_message(traces["plain"]).name
    row = next(row for row in messages(traces["plain"])[which] if row["event"] == event)
    other = row["node"] if peer == "itself" else peer

    def alter(rows):
        for one in rows:
            if all(one[name] == row[name] for name in ("cycle", "unit", "port")):
                one["peer"] = other

    tamper(tmp_path / "odd.parquet", traces["plain"], alter)
    with pytest.raises(TraceError, match=f"cycle {row['cycle']}, unit {row['unit']}: names node {other}; audit"):
        find_message(tmp_path / "odd.parquet", f"relay:{which}")


def test_a_uid_that_comes_round_is_the_one_with_the_most_hops(tmp_path):
    """With uids of 8 bits two messages of an origin have one name now and then."""
    system = relay_system(
        relay={"slots": 2, "uid_bits": 8, "uid_first": 250, "wrap": True}, workload={"count": 600, "load": 0.4}
    )
    golden = Golden(system, record=True)
    golden.run(100_000)
    trace = written(tmp_path / "wraps.parquet", golden)
    for name, rows in messages(trace).items():
        begun = [row["cycle"] for row in rows if row["event"] == Event.RELAY_SEND]
        if len(begun) > 1:
            ladder = find_message(trace, f"relay:{name}")
            assert sum(mark.text == "given to relay" for mark in ladder.marks) == 1
            assert name.split(":")[:3] == [str(part) for part in unpack_uid(rows[0]["uid"])[:3]]
            return
    raise AssertionError("no uid came round")
