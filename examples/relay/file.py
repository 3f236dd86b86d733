"""A file crosses 64 nodes while three of the relays on its way die, the root of the overlay among them.

``python examples/relay/file.py`` sends a file from node 63 to node 62 in messages of relay, over eleven hops, puts it
together in the order of arrival, compares it, and writes a page, ``file.html``, with what happened.
"""

import argparse
import hashlib
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lethe.spec.config import System, load
from lethe.spec.sections.relay import first_overlay
from lethe_sim.commands.common import Mistake
from lethe_sim.commands.files import Files
from lethe_sim.files import PAGE
from lethe_sim.golden.model import Golden
from lethe_sim.golden.script import Item, Script
from lethe_sim.ledger.audit import AuditResult
from lethe_sim.ledger.here import audit
from lethe_sim.report import relay
from lethe_sim.report.html import environment
from lethe_sim.trace import TraceWriter, open_trace, summed_counters
from lethe_sim.trace.relay_ladder import find_message

NETWORK = Path(__file__).with_name("network.toml")
SOURCE, TARGET = 63, 62
#: Cycles between two looks at whether the file is there, and after it has come until all is told.
STEP, AFTER = 500, 2000
PAGE_OF_THE_FILE = """
{% extends "frame.html" %}
{% block title %}a file and three deaths{% endblock %}
{% block header %}<span>a file and three deaths</span><span class="run">{{ cycles|n }} cycles</span>{% endblock %}
{% block main %}
<div class="verdict {{ "good" if equal else "bad" }}">
  <h1>{{ "The file came whole." if equal else "The file is not what was sent." }}</h1>
  <p>{{ size|n }} bytes went from node {{ source }} to node {{ target }} in {{ messages|n }} messages, over
  {{ before|length - 1 }} hops at first. Nodes {{ dead|join(", ") }} on this way died. SHA-256 of what was sent and of
  what came: {{ sent }}{% if not equal %}, {{ came }}{% endif %}. The audit of the trace: {{ audit }}.</p>
</div>
<section>
  <h2>What was tried here</h2>
  <p class="lead">A message of relay goes from node to node over a tree, and is posted at its end once and in order.
  Each node between keeps for some time what it has passed on. When a node dies, the others are told, build the tree
  anew, and ask each other for what is missing. The way was {{ before|join(" → ") }}, and is now
  {{ after|join(" → ") }}. Grey in the charts: when nodes were told of a death. The links lose
  {{ "%.0f"|format(loss * 100) }} % of what they carry.</p>
  <div class="grid">
    {% for picture in pictures %}
    <div class="card{{ " across" if picture.wide }}"><h3>{{ picture.title }}</h3><p>{{ picture.about }}</p>
      <div class="scroll">{{ picture.drawn }}</div>
      <a class="data" download="{{ picture.name }}.csv" href="{{ picture.csv }}">Numbers as CSV</a></div>
    {% endfor %}
  </div>
</section>
{% endblock %}
"""


@dataclass
class Crossing:
    """What came, in how many cycles, what the audit says of the trace, and its pictures."""

    data: bytes
    messages: int
    cycles: int
    audit: AuditResult
    pictures: list


def cross(system: System, data: bytes) -> Crossing:
    """Send ``data`` from one node to the other, and look at it until it is there or the cycles are over."""
    size = system.relay_mtu
    pieces = [data[at : at + size] for at in range(0, len(data), size)] or [b""]
    tags = 1 << system.wire.tag_bits
    items = (Item(node=SOURCE, destination=TARGET, payload=piece, tag=n % tags) for n, piece in enumerate(pieces))
    golden = Golden(system, Script.from_items(system, items), record=True)
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "run.parquet"
        with TraceWriter(trace, system) as writer:
            left = None
            while golden.cycle < system.run.cycles and left != 0:
                golden.run(STEP)
                writer.append(golden.take_events())
                if left is None and len(golden.letters()) >= len(pieces):
                    left = AFTER
                elif left is not None:
                    left = max(0, left - STEP)
            counters = summed_counters(
                golden.counters, golden.router_counters, golden.link_counters, None, golden.service_counters
            )
            writer.finish(cycles=golden.cycle, drained=golden.drained, digest=golden.digest, counters=counters)
        course = relay.course(open_trace(trace, judged=True))
        letters = golden.letters()
        came = [letters.payload(i) for i in range(len(letters)) if letters.node[i] == TARGET]
        return Crossing(
            b"".join(came), len(pieces), golden.cycle, audit(trace),
            relay.pictures(course, find_message(trace)) if course else [],
        )  # fmt: skip


def page(system: System, data: bytes, crossing: Crossing) -> str:
    """The page about it."""
    before = first_overlay(system)
    dead = [fault.node for fault in system.faults.deaths]
    return (
        environment()
        .from_string(PAGE_OF_THE_FILE)
        .render(
            equal=crossing.data == data, size=len(data), source=SOURCE, target=TARGET, messages=crossing.messages,
            cycles=crossing.cycles, before=before.path(SOURCE, TARGET),
            after=before.without(*dead).path(SOURCE, TARGET), dead=dead, sent=sha256(data), came=sha256(crossing.data),
            loss=system.faults.loss, audit=findings(crossing.audit), pictures=crossing.pictures,
        )
    )  # fmt: skip


def findings(result: AuditResult) -> str:
    """What the audit found, in a line."""
    return ", ".join(f"{found.count:,} {found.name}" for found in result.findings) or "nothing is wrong"


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, nargs="?", default=Path(__file__), help="what is sent (default: this file)")
    parser.add_argument("-o", "--output", type=Path, default=Path("file.html"), help="the page (default: file.html)")
    chosen = parser.parse_args(arguments)
    files = Files()
    files.writes(chosen.output, "-o", PAGE)
    try:
        files.check()
        data = chosen.file.read_bytes()
    except Mistake as mistake:
        parser.error(str(mistake))
    except OSError as error:
        parser.error(f"{chosen.file}: cannot be read: {error.strerror}; name another file")
    system = load(str(NETWORK))
    crossing = cross(system, data)
    chosen.output.write_text(page(system, data, crossing), encoding="utf-8")
    print(f"{len(data):,} bytes in {crossing.messages:,} messages, {crossing.cycles:,} cycles")
    print(f"sent     SHA-256 {sha256(data)}")
    print(f"received SHA-256 {sha256(crossing.data)}")
    print(f"audit: {findings(crossing.audit)}")
    return 0 if crossing.data == data and not crossing.audit.findings else 1


if __name__ == "__main__":
    raise SystemExit(main())
