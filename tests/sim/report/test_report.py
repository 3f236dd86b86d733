"""The page stands alone, is well formed, tells the verdict, and draws every topology."""

import csv
import io
import re
import xml.etree.ElementTree as ElementTree
from base64 import b64decode

import pytest

from lethe.spec.config import System
from lethe.spec.events import Drop, Event
from lethe.spec.toml import dump
from lethe.spec.wire import pack_uid
from lethe_sim.ledger.audit import BROKEN, ONCE, UNFINISHED, AuditResult, Example, Finding, Metrics, Number
from lethe_sim.pipeline.compare import CompareResult, Row
from lethe_sim.report import charts, fabric, render
from lethe_sim.trace import Meta
from lethe_sim.trace.ladder import MessageLadder, Note, Worm
from tests.helpers.html_balance import Balance

TOPOLOGIES = {
    "wire": {"kind": "wire"},
    "crossbar": {"kind": "crossbar", "nodes": 40},
    "fly": {"kind": "fly", "arity": 4, "levels": 2},
    "tree": {"kind": "tree", "arity": 4, "levels": 3},
    "one switch": {"kind": "tree", "arity": 8, "levels": 1},
    "large tree": {"kind": "tree", "arity": 4, "levels": 5},
    "large mesh": {"kind": "mesh", "columns": 40, "rows": 30},
    "mesh": {"kind": "mesh", "columns": 5, "rows": 2},
}
UID = pack_uid(1, 1, 2, 3)


def meta_of(system: System, **changes) -> Meta:
    values = {"run": system.run.name, "side": "golden", "config": dump(system), "cycles": 1000, "drained": True}
    return Meta(**(values | {"digest": 0xABC, "events": 12, "counters": {"ni": {"SENDS": 4321}}} | changes))


def metrics_of(system: System) -> Metrics:
    graph = system.graph
    events = [(0, Event.DROP, Drop.TABLE_FULL, 5), (1, Event.DELIVER, 0, 90)]
    if graph.routers:
        events += [(graph.nodes, Event.FORWARD, 1, 70), (graph.nodes, Event.DISCARD_BUSY, 0, 30)]
    events.append((graph.nodes + graph.routers, Event.LOST, 0, 4))
    return Metrics(
        datagrams=90, delivered=90, once=90, accepted=90, flits=360, bytes=2880, goodput=0.1, messages=300,
        messages_per_datagram=3.4, repeats=9, repeated=8, most_sends=3, overtaken=2, unlucky=UID,
        latency={"least": 8, "mean": 20.5, "median": 12, "p90": 30, "p99": 90, "p99.9": 95, "greatest": 95},
        latency_bars=((8, 10, 40), (10, 11, 0), (11, 13, 49), (91, 108, 1)), goodput_bars=((0, 0.2), (500, 0.1)),
        message_bars=((3, 80), (5, 9), (64, 1)), events=tuple(events),
    )  # fmt: skip


def audit_of(system: System, **changes) -> AuditResult:
    values = {
        "verdict": ONCE, "run": system.run.name, "side": "golden", "cycles": 1000, "layout": system.layout,
        "findings": (), "by_reset": 0, "by_reset_examples": (), "metrics": metrics_of(system),
    }  # fmt: skip
    return AuditResult(**(values | changes))


@pytest.fixture
def system() -> System:
    return System.make(topology=TOPOLOGIES["tree"], run={"name": '<b>&"run"', "seed": 77}, faults={"loss": 0.02})


def test_a_service_has_a_section(system):
    """Only where there is one; its numbers stand beside what they mean."""
    numbers = (Number(1234, "to the own node", "stored whole"), Number(0, "refused", "with a wrong mode"))
    text = render(audit_of(system, services=(("loop", numbers),)), meta_of(system))
    assert "<h2>Loop</h2>" in text and "<h2>Loop</h2>" not in render(audit_of(system), meta_of(system))
    row = r'<th scope="row">to the own node</th><td class="about">stored whole</td><td class="count">1,234</td>'
    assert row in text and "with a wrong mode" in text


LADDER = MessageLadder(
    uid=UID,
    sender=1,
    receiver=5,
    length=32,
    worms=(
        Worm(name="Send", from_sender=True, launched=10, arrived=None, fate="router3: output busy", progress=0.4),
        Worm(name="Send (repeat 1)", from_sender=True, launched=90, arrived=99, fate="delivered", progress=1.0),
        Worm(name="Ack", from_sender=False, launched=103, arrived=110, fate="released", progress=1.0),
    ),
    notes=(Note(cycle=5, at_sender=True, text="accepted"),),
)


def test_page_stands_alone(system):
    page = render(audit_of(system), meta_of(system), ladder=LADDER)
    assert all(address.startswith("data:") for address in re.findall(r'(?:src|href)="([^"]*)"', page))
    assert "http" not in page and "@import" not in page and "url(" not in page
    assert "<script" not in page


def test_page_is_well_formed(system):
    page = render(audit_of(system), meta_of(system), ladder=LADDER)
    balance = Balance()
    balance.feed(page)
    assert balance.open == []
    pictures = re.findall(r"<svg.*?</svg>", page, re.S)
    assert len(pictures) >= 7
    for picture in pictures:
        ElementTree.fromstring(picture)


def test_page_tells_the_run(system):
    page = render(audit_of(system), meta_of(system), ladder=LADDER)
    assert "Every datagram, once." in page and "All 90 datagrams arrived exactly once" in page
    assert "although 39 of the messages" in page and "seed 77" in page
    assert "&lt;b&gt;" in page and '<b>&"run' not in page
    assert "every link lost 2.0% of the messages" in page
    assert "0000000000000abc" in page and "4,321" in page and "lethe ladder" in page


def test_numbers_can_be_taken_away(system):
    page = render(audit_of(system), meta_of(system))
    files = dict(re.findall(r'download="([\w.]+)" href="data:[^,]*,([^"]*)"', page))
    assert set(files) == {"latency.csv", "goodput.csv", "messages.csv", "discards.csv", "units.csv", "run.toml"}
    rows = list(csv.reader(io.StringIO(b64decode(files["discards.csv"]).decode())))
    assert rows[0] == ["reason", "where", "count"] and [row[2] for row in rows[1:]] == ["30", "5", "4"]
    assert b64decode(files["run.toml"]).decode() == meta_of(system).config


def test_broken(system):
    case = Example(run="r", uid=UID, cycle=77, unit=1, peer=5, note="delivered 2 times")
    finding = Finding(name="doubled", about="delivered more than once", count=30, examples=(case,))
    page = render(audit_of(system, verdict=BROKEN, findings=(finding,)), meta_of(system))
    assert "The promise was broken." in page and "30 doubled" in page
    assert "1:1:2:3, cycle 77, ni1, peer node 5: delivered 2 times" in page and "and 29 more" in page


def test_unfinished(system):
    page = render(audit_of(system, verdict=UNFINISHED), meta_of(system, drained=False))
    assert "The run did not finish." in page and "not drained" in page


def test_given_up_and_reset(system):
    metrics = Metrics(**(vars(metrics_of(system)) | {"datagrams": 100, "delivered": 95, "once": 90, "unknown": 6}))
    case = Example(run="r", uid=UID, cycle=5, unit=1, peer=5, note="deliveries: 0")
    page = render(audit_of(system, metrics=metrics, by_reset=4, by_reset_examples=(case,)), meta_of(system))
    assert "No datagram twice, none lost in silence." in page
    assert "90 of 100 datagrams arrived exactly once" in page and "other 6 were given up" in page
    assert "4 met the reset of a node" in page and "deliveries: 0" in page


@pytest.mark.parametrize("equal", [True, False])
def test_both_sides(system, equal):
    left, right = meta_of(system), meta_of(system, side="rtl", digest=0xABC if equal else 0xDEF)
    row = Row(cycle=5, unit=1, port=0, event=int(Event.SEND), uid=UID, peer=5, length=32, detail=0)
    rows = {} if equal else {"cycle": 5, "unit": 1, "left_rows": (row,), "left_around": (row,)}
    compare = CompareResult(equal=equal, left=left, right=right, **rows)
    page = render(audit_of(system), left, compare=compare)
    assert ("agree on every event" in page) == equal and "rtl" in page
    assert equal or ("0000000000000def" in page and "different from cycle 5 on, first at ni1" in page)


@pytest.mark.parametrize(
    ("router", "told"),
    [
        ({}, "no buffers"),
        ({"queue": 1}, "room for one message at each input"),
        ({"queue": 2}, "room for 2 messages at each input"),
        ({"flow": "credits"}, "throws nothing away"),
        ({"flow": "credits", "queue": 2}, "throws nothing away"),
    ],
)
def test_the_story_is_that_of_the_network(router, told):
    system = System.make(topology=TOPOLOGIES["mesh"], router=router, timers={"wrap_guard": 0})
    page = render(audit_of(system), meta_of(system))
    assert re.findall(r"This network (?:has )?(no buffers|room for .* input|throws nothing away)", page) == [told]


def test_a_full_queue_is_a_reason():
    system = System.make(topology=TOPOLOGIES["mesh"], router={"queue": 1})
    metrics = Metrics(datagrams=1, events=((system.nodes, int(Event.DISCARD_FULL), 0, 7),))
    assert re.findall(r"queue [^<:]* full(?=: 7)", render(audit_of(system, metrics=metrics), meta_of(system)))


@pytest.mark.parametrize("name", TOPOLOGIES)
def test_topologies(name):
    system = System.make(topology=TOPOLOGIES[name], timers={"wrap_guard": 0})
    page = render(audit_of(system), meta_of(system))
    picture = fabric.network(metrics_of(system), system.graph)
    assert picture in page
    root = ElementTree.fromstring(picture)
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    for shape in root:
        for key in ("x", "cx", "x1", "x2"):
            assert 0 <= float(shape.get(key, 0)) <= width
        for key in ("y", "cy", "y1", "y2"):
            assert 0 <= float(shape.get(key, 0)) <= height
    if "large" not in name:
        stations = [shape for shape in root if shape.get("class") == "station"]
        assert len(stations) == system.nodes * (2 if name == "fly" else 1)
    told = [title.text for title in root.iter("title")]
    assert name == "wire" or any("70 worms passed, 30 discarded" in text for text in told)


def test_units_of_huge_networks_are_not_drawn():
    system = System.make(topology=TOPOLOGIES["tree"])
    metrics = Metrics(datagrams=1, events=((-1, int(Event.DISCARD_UP), 0, 3),))
    assert fabric.network(metrics, system.graph) is None
    assert "every way up was busy" in render(audit_of(system, metrics=metrics), meta_of(system))


def test_nothing_happened(system):
    page = render(audit_of(system, metrics=Metrics()), meta_of(system, counters={}))
    assert "Nothing was thrown away" in page


def test_long_ladders_are_cut():
    worm = LADDER.worms[1]
    many = MessageLadder(
        **(vars(LADDER) | {"worms": tuple(Worm(**(vars(worm) | {"launched": 10 * i})) for i in range(300))})
    )
    from lethe_sim.report import ladder

    picture = ladder.draw(many)
    assert "255 more" in picture and picture.count("<line") < 60


def test_an_axis_writes_short_numbers():
    assert {">500</text>", ">0</text>"} <= set(
        re.findall(r">[^<>]*</text>", charts.messages(Metrics(message_bars=((3, 500),))))
    )
    large = charts.messages(Metrics(message_bars=((3, 25_000), (4, 1500))))
    assert ">25k</text>" in large and ">5,000</text>" in large
    small = charts.goodput(Metrics(goodput_bars=((0, 0.001),)), 10, None)
    assert ">0.001</text>" in small


def test_a_bar_says_its_number_to_a_pointer_and_to_a_screen_reader(system):
    for picture, told in (
        (charts.latency(metrics_of(system)), "8 to 9 cycles: 40 datagrams"),
        (charts.messages(metrics_of(system)), "64 or more messages: 1 datagrams"),
        (charts.discards([("busy <way> & more", "fabric", 30), ("lost", "fault", 2)]), "busy <way> & more: 30"),
    ):
        bars = {e.get("aria-label"): e.findtext("title") for e in ElementTree.fromstring(picture).iter("path")}
        assert bars[told] == told


def test_the_same_numbers_give_the_same_bytes(system):
    first, again = (render(audit_of(system), meta_of(system), ladder=LADDER) for _ in range(2))
    assert first == again


def test_one_latency_is_drawn():
    one = {"median": 8, "p99": 8}
    assert charts.latency(Metrics(latency_bars=((8, 10, 1),), latency=one)) is not None
