"""What the report tells of relay: counts are those of the trace, trees those of the overlay."""

import re
from collections import Counter

import pytest

from lethe.spec.events import Event
from lethe.spec.overlay import Overlay
from lethe_sim.golden.model import Golden
from lethe_sim.report import relay
from lethe_sim.trace import TraceWriter, open_trace
from lethe_sim.trace.relay_ladder import find_message
from tests.helpers.golden_systems import make
from tests.helpers.html_balance import Balance
from tests.helpers.relay_systems import deaths, relay_system


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    """A run in which two nodes die, and links lose much."""
    path = tmp_path_factory.mktemp("relay") / "run.parquet"
    golden = Golden(
        relay_system(faults=deaths((1, 800), (0, 3000)) | {"loss": 0.05}, relay={"cells": 2, "buffers": 1}), record=True
    )
    golden.run(20_000)
    with TraceWriter(path, golden.system) as writer:
        writer.append(golden.take_events())
        writer.finish(cycles=golden.cycle, drained=False)
    return open_trace(path)


def test_the_counts_are_those_of_the_trace(trace):
    found = relay.course(trace)
    rows = trace.table().to_pylist()
    events = Counter(row["event"] for row in rows)
    for name, event in (relay.COUNTED | relay.WANT).items():
        line = (found.counts | found.want)[name]
        assert line.sum() == events[event], name
    assert found.live[-1] == events[Event.RELAY_SEND] - events[Event.RELAY_END] - lost(rows)
    again = Counter()
    first = trace.meta.system.layout.service_unit(0, 0)
    for row in rows:
        if row["event"] == Event.RELAY_HOP and row["detail"] == 1:
            node = row["unit"] - first
            again["by origins" if row["uid"] >> 44 == node else "by relays", node] += 1
    assert again == Counter({(name, node): n for name, nodes in found.replayed.items() for node, n in nodes.items()})
    assert sum(found.replays["by relays"]) == sum(n for (name, _), n in again.items() if name == "by relays") > 0
    assert sum(line.sum() for line in found.told.values()) == events[Event.RELAY_TOLD]
    assert found.dead == (1, 0)


def lost(rows) -> int:
    """Messages that were live at a node when it died."""
    live, gone = Counter(), 0
    for row in rows:
        if row["event"] in (Event.RELAY_SEND, Event.RELAY_END):
            live[row["unit"]] += 1 if row["event"] == Event.RELAY_SEND else -1
        elif row["event"] == Event.RELAY_RESET:
            gone += live.pop(row["unit"], 0)
    return gone


def test_the_pictures(trace):
    drawn = relay.pictures(relay.course(trace), find_message(trace.path))
    pictures = {picture.name: picture for picture in drawn}
    assert [*pictures][-1] == "message" and pictures["message"].wide
    assert {*pictures} == {
        "messages", "tree", "tree_after", "live", "replays", "answered", "control", "want", "message",
    }  # fmt: skip
    assert pictures["message"].about.startswith("Message ")
    for picture in pictures.values():
        Balance().feed(str(picture.drawn))
        assert picture.about.endswith(".") and picture.csv.startswith("data:text/csv")
    assert "Without nodes 1, 0." in pictures["tree_after"].about


def test_a_tree_has_a_circle_for_each_living_node():
    tree = Overlay(nodes=15, radix=2).without(1, 0)
    drawn = str(relay.draw_overlay(tree, [2, 5]))
    told = re.findall(r"<title>node (\d+), depth (\d+)(, promoted)?</title>", drawn)
    assert {int(node): int(depth) for node, depth, _ in told} == {node: tree.depth(node) for node in tree.living}
    assert {int(node) for node, _, promoted in told if promoted} == {2, 5}
    assert drawn.count("<line") == 12


def test_a_system_without_relay_has_no_course(tmp_path):
    golden = Golden(make(), record=True)
    golden.run(50)
    with TraceWriter(tmp_path / "t.parquet", golden.system) as writer:
        writer.append(golden.take_events())
        writer.finish(cycles=50, drained=False)
    assert relay.course(open_trace(tmp_path / "t.parquet")) is None
