"""One port stalls, and the others do not notice: fifteen nodes send to four ports of node 0, one of which is not read.

``python examples/rds/stall.py`` runs this twice with the same messages, the second time without the stall, and writes a
page, ``stall.html``, with what each port had in either run.
"""

import argparse
import errno
from collections import Counter, deque
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from lethe.spec.config import load
from lethe_sim.commands.common import Mistake
from lethe_sim.commands.files import Files
from lethe_sim.files import PAGE
from lethe_sim.rds import RdsNetwork
from lethe_sim.rds import constants as rds
from lethe_sim.rds.golden import GoldenFlow
from lethe_sim.rds.polling import Poll
from lethe_sim.report.html import csv_uri, environment
from lethe_sim.report.timeline import Stretch, steps

NETWORK = Path(__file__).with_name("network.toml")
PORTS = (4001, 4002, 4003, 4004)
STALLED = 4002
#: Cycles from one message of a socket to its next, bytes of a message, and SO_RCVBUF of the four ports.
PERIOD, LENGTH, ROOM = 2000, 32, 1024
#: Cycles of a column in the numbers over time.
COLUMN = 1000
#: Cycles until every node is connected.
CONNECTED = 2500
HEAD = ("port", "messages read", "without", "p99 in cycles", "without", "ENOBUFS")
PAGE_OF_THE_STALL = """
{% extends "frame.html" %}
{% block title %}one port stalls{% endblock %}
{% block header %}<span>one port stalls</span><span class="run">{{ cycles|n }} cycles</span>{% endblock %}
{% block main %}
<div class="verdict {{ "good" if kept else "bad" }}">
  <h1>{{ "One port stalled. The others did not notice." if kept else "The others noticed." }}</h1>
  <p>Nobody read port {{ stalled }} from cycle {{ span.start|n }} to {{ span.end|n }}. In these cycles the other three
  ports had {{ "%.3f"|format(share) }} or more of the messages that they have without a stall, and the 99th percentile
  of their latency was {{ "%.2f"|format(slower) }} times as high.</p>
</div>
<section>
  <h2>What was tried here</h2>
  <p class="lead">Fifteen nodes send to four ports of one node, a message of {{ length }} bytes from each to each port
  every {{ period|n }} cycles. All four share one link, one network interface, and one reader. A port that is not read
  fills up to its buffer of {{ room|n }} bytes. Then it is congested: every sender is told so, and a send to it ends
  with ENOBUFS. The links lose {{ "%.0f"|format(loss * 100) }} % of what they carry.</p>
  <div class="grid">
    {% for picture in pictures %}
    <div class="card"><h3>{{ picture.title }}</h3><p>{{ picture.about }}</p>{{ picture.drawn }}
      <a class="data" download="{{ picture.name }}.csv" href="{{ picture.csv }}">Numbers as CSV</a></div>
    {% endfor %}
  </div>
</section>
<section>
  <h2>During the stall</h2>
  <p class="lead">Messages that were sent and read in these cycles, beside the run without a stall.</p>
  <div class="card scroll">
    <table class="table">
    <thead><tr>
    {% for cell in head %}
    <th{{ (' class="left"' if loop.first else ' style="text-align: right"')|safe }}>{{ cell }}</th>
    {% endfor %}
    </tr></thead>
    {% for row in rows %}
    <tr>{% for cell in row %}<td{{ ' class="left"'|safe if loop.first }}>{{ cell }}</td>{% endfor %}</tr>
    {% endfor %}
    </table>
  </div>
</section>
{% endblock %}
"""


@dataclass
class Read:
    """A message that was read: at which port, and the cycles in which it was sent and read."""

    port: int
    sent: int
    read: int


@dataclass
class Course:
    """What happened in a run.

    Attributes
    ----------
    reads : every message that was read
    refused : sends that met a congested port, by port and column
    waiting : of each port the bytes that wait for its program, over the cycles
    """

    reads: list[Read] = field(default_factory=list)
    refused: Counter[tuple[int, int]] = field(default_factory=Counter)
    waiting: dict[int, list[tuple[int, int]]] = field(default_factory=lambda: {port: [(0, 0)] for port in PORTS})

    def during(self, port: int, span: Stretch) -> list[int]:
        """Latencies of what was sent to a port in a span and read in it."""
        return [r.read - r.sent for r in self.reads if r.port == port and span.start <= r.sent <= r.read < span.end]


def run(cycles: int, stall: Stretch | None) -> Course:
    """So many cycles, in those of the stall one port is not read."""
    course = Course()
    with RdsNetwork(GoldenFlow(load(str(NETWORK)))) as network:
        readers = {port: network.socket(0) for port in PORTS}
        for port, socket in readers.items():
            socket.setsockopt(rds.SOL_SOCKET, rds.SO_RCVBUF, ROOM)
            socket.bind((network.addresses.of(0), port))
        senders = []
        for node in range(1, len(network.nodes)):
            for port in PORTS:
                socket = network.socket(node)
                socket.bind((network.addresses.of(node), port))
                socket.connect((network.addresses.of(0), port))
                senders.append((socket, port))
        # Sockets take turns, and begin together with nobody.
        due = deque((network.cycle + at * PERIOD // len(senders), at) for at in range(len(senders)))
        while network.cycle < cycles:
            now = network.cycle
            stalled = stall is not None and stall.start <= now < stall.end
            read = {port: socket for port, socket in readers.items() if not (stalled and port == STALLED)}
            while due[0][0] <= now:
                at, number = due.popleft()
                due.append((at + PERIOD, number))
                socket, port = senders[number]
                try:
                    socket.send(now.to_bytes(8) + bytes(LENGTH - 8), rds.MSG_DONTWAIT)
                except OSError as error:
                    if error.errno != errno.ENOBUFS:
                        raise
                    course.refused[port, now // COLUMN] += 1
            edges = [cycles, due[0][0]] + ([edge for edge in (stall.start, stall.end) if edge > now] if stall else [])
            poll = Poll()
            for socket in read.values():
                poll.register(socket, rds.POLLIN)
            for socket, _ in poll.poll(max(1, min(edges) - now)):
                port = socket.getsockname()[1]
                message = socket.recv(LENGTH)
                course.reads.append(Read(port, int.from_bytes(message[:8]), network.cycle))
            for row in network.information(0).sockets:
                if row.port in PORTS and course.waiting[row.port][-1][1] != row.waiting:
                    course.waiting[row.port].append((network.cycle, row.waiting))
    return course


def p99(latencies: list[int]) -> int:
    """The 99th percentile of some latencies: 99 % are at most this."""
    return sorted(latencies)[-(-99 * len(latencies) // 100) - 1] if latencies else 0


def columns(course: Course, cycles: int) -> dict[str, list[tuple[int, int]]]:
    """Messages that each port's program read in the cycles of a column, over the cycles."""
    counts = Counter((read.port, min(read.read, cycles - 1) // COLUMN) for read in course.reads)
    return {f"port {port}": [(at * COLUMN, counts[port, at]) for at in range(-(-cycles // COLUMN))] for port in PORTS}


def page(course: Course, without: Course, span: Stretch, cycles: int) -> tuple[str, bool]:
    """The page about both runs, and whether the other ports kept what they have without the stall."""
    others = [port for port in PORTS if port != STALLED]
    had, has = ([run.during(port, span) for port in others] for run in (without, course))
    share = min(len(now) / max(1, len(before)) for before, now in zip(had, has, strict=True))
    slower = p99([*chain(*has)]) / max(1, p99([*chain(*had)]))
    refused = [(at * COLUMN, course.refused[STALLED, at]) for at in range(-(-cycles // COLUMN))]
    spans = [span]
    drawings = (
        (
            "read", "Messages read", f"By the program of each port, in {COLUMN:,} cycles; behind it, the stall.",
            columns(course, cycles), "messages", spans,
        ),
        (
            "without", "The same without the stall", "The same messages, and every port is read.",
            columns(without, cycles), "messages", [],
        ),
        (
            "waiting", "Bytes that wait", "In the buffer of each port, for its program.",
            {f"port {port}": course.waiting[port] for port in PORTS},
            "bytes", spans,
        ),
        (
            "refused", "Sends refused with ENOBUFS", f"To port {STALLED}, in {COLUMN:,} cycles.",
            {f"port {STALLED}": refused}, "sends", spans,
        ),
    )  # fmt: skip
    pictures = [
        {
            "name": name, "title": title, "about": about,
            "drawn": steps(
                lines, cycles, title=unit, label=title, spans=behind, colour=PORTS.index(STALLED) * (len(lines) == 1)
            ),
            "csv": csv_uri(
                ("port", "cycle", name), [(port, *point) for port, points in lines.items() for point in points]
            ),
        }
        for name, title, about, lines, unit, behind in drawings
    ]  # fmt: skip
    rows = []
    for port in PORTS:
        now, before = course.during(port, span), without.during(port, span)
        enobufs = sum(n for (to, at), n in course.refused.items() if to == port)
        rows.append((port, *(f"{n:,}" for n in (len(now), len(before), p99(now), p99(before), enobufs))))
    kept = share >= 0.95 and slower <= 1.2
    text = environment().from_string(PAGE_OF_THE_STALL).render(
        kept=kept, share=share, slower=slower, span=span, stalled=STALLED, cycles=cycles, pictures=pictures, rows=rows,
        head=HEAD, length=LENGTH, period=PERIOD, room=ROOM, loss=load(str(NETWORK)).faults.loss,
    )  # fmt: skip
    return text, kept


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cycles", type=int, default=30_000, help="how long (default: 30,000)")
    parser.add_argument("-o", "--output", type=Path, default=Path("stall.html"), help="the page (default: stall.html)")
    chosen = parser.parse_args(arguments)
    if chosen.cycles < 4 * CONNECTED:
        parser.error(f"--cycles: must be at least {4 * CONNECTED}; until {CONNECTED} the nodes connect")
    files = Files()
    files.writes(chosen.output, "-o", PAGE)
    try:
        files.check()
    except Mistake as mistake:
        parser.error(str(mistake))
    span = Stretch(3 * chosen.cycles // 10, 7 * chosen.cycles // 10, "nobody reads the port")
    course, without = run(chosen.cycles, span), run(chosen.cycles, None)
    text, kept = page(course, without, span, chosen.cycles)
    chosen.output.write_text(text, encoding="utf-8")
    print(f"{len(course.reads):,} messages read, {len(without.reads):,} without the stall")
    print(f"{chosen.output}: the others {'did not notice' if kept else 'noticed'}")
    return 0 if kept else 1


if __name__ == "__main__":
    raise SystemExit(main())
