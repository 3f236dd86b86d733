"""Runs the sweeps of `examples/queues` and draws the answers from them.

Standard output has the tables and the hypotheses as Markdown, the directory a page with the pictures, and for each
sweep a page of its own.  The exit code is 0 whichever way the hypotheses turn out, 1 if a datagram was lost, doubled or
altered anywhere, 3 if runs could not be done, and 130 if it was interrupted.  What credits with adaptive paths deliver
twice is told, and is no failure: those paths do not keep the order, and no slot lingers there.
"""

import argparse
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from lethe.spec.config import parse
from lethe_sim.files import write
from lethe_sim.report import Figure, facets
from lethe_sim.report.html import environment
from lethe_sim.report.sweep import Kept, Value
from lethe_sim.sweep.summary import broken, interval

#: Bits of a flit, flits of a worm, and ports of a router below the top, in these networks.
FLIT, WORM, PORTS = 64, 6, 8
#: Of the name of a pool in which messages overtake each other.
FREELY = ", any up-port, control first"
#: The sweeps, in the order of the page.
TITLES = {
    "load": "Over load",
    "payload": "Payloads of all lengths",
    "nodes": "Networks of all sizes",
    "patterns": "Traffic that is not uniform",
    "kernels": "Parallel kernels",
    "captures": "A capture",
    "timeouts": "Time-outs under credits",
    "matter": "What mattered",
    "pool": "Pools",
    "stages": "Routers of five stages",
    "hotspot": "A hotspot",
    "channels": "Credits at their best",
}
SWEEPS = tuple(TITLES)
#: A campaign that draws nothing, and is done only where it is asked for: it ends well or not.
CAMPAIGN = "once"
#: What the page draws of each.
DRAWN = {
    "load": ("goodput", "latency_p50", "latency_p99", "messages_per_datagram"),
    "payload": ("goodput", "latency_p50"),
    "nodes": ("goodput", "latency_p50"),
    "patterns": ("goodput", "latency_p50"),
    "kernels": ("cycles",),
}
#: What the page has tables of, and what it says of them.
TABLED = {
    "captures": "Packets that passed between eight hosts, as they came and ever closer together.",
    "timeouts": "Credits throw nothing away, so what is repeated early is in the way of what was not.",
    "matter": "A network that discards, one thing turned at a time.",
    "pool": "Buffers that all inputs of a router share, beside credits.",
    "stages": "Pools beside credits where a hop takes five cycles, and a credit comes back two cycles after its flit.",
    "hotspot": "What it does to the datagrams that go elsewhere.",
    "channels": "Credits with virtual channels and adaptive paths, beside pools.",
}
_ROOT = Path(__file__).resolve().parents[1]


class Ratio(NamedTuple):
    """Of two means: its own mean, and all of it in words, with intervals."""

    mean: float
    told: str


class Swept:
    """The means of a sweep, by the names of its points."""

    def __init__(self, directory: Path):
        self.kept = Kept.read(directory)

    def names(self, axis: str) -> list[str]:
        return [text for text, _ in self.kept.steps(axis)]

    def value(self, metric: str, at: dict[str, str]) -> Value | None:
        """A metric at the point with these values of all its axes; None if it has none."""
        for point, values in self.kept.points.items():
            if {axis: text for axis, (text, _) in values.items()} == at:
                return self.kept.values[metric].get(point)
        return None

    def mean(self, metric: str, at: dict[str, str]) -> float | None:
        """The mean of `value`."""
        found = self.value(metric, at)
        return found.mean if found else None

    def times(self, metric: str, one: str, other: str, at: dict[str, str]) -> "Ratio | None":
        """How many times as much of a metric one network has there as another: the mean of what each seed has."""
        means = tuple(self.value(metric, {"network": name, **at}) for name in (one, other))
        left, right = (self._seeds(metric, {"network": name, **at}) for name in (one, other))
        each = [left[seed] / right[seed] for seed in left if right.get(seed)]
        if not each or not all(means):
            return None
        value = Value(*interval(each))
        half = f"{value.high - value.mean:.2f}" if value.high is not None else ""
        told = f"{value.mean:.2f}" + f" ± {half}" * bool(half.strip("0."))
        return Ratio(value.mean, f"{told} times ({', '.join(map(between, means))})")

    def _seeds(self, metric: str, at: dict[str, str]) -> dict[int, float]:
        """A metric at a point, by seed; all points have the same seeds."""
        found = {}
        for run in self.kept.runs:
            if {axis: text for axis, (text, _) in self.kept.points[run["point"]].items()} == at:
                rows = self.kept.results[run["run"]].metrics
                found[run["seed"]] = next(row.value for row in rows if row.metric == metric)
        return found

    @property
    def where(self) -> str:
        """What is special about its routers, in words; nothing if a hop takes a cycle."""
        run, result = next(iter(self.kept.results.items()))
        hop = parse(result.config, run).router.latency
        return f", {hop} cycles a hop" if hop > 1 else ""

    def table(self, metric: str, rows: str, columns: str, fixed: dict[str, str] | None = None) -> str:
        """Markdown: one row for each value of one axis, one column for each of another."""
        across = self.names(columns)
        lines = [f"| {rows} | " + " | ".join(across) + " |", "| --- |" + " ---: |" * len(across)]
        for row in self.names(rows):
            values = [self.value(metric, {rows: row, columns: column} | (fixed or {})) for column in across]
            lines.append(f"| {row} | " + " | ".join(map(between, values)) + " |")
        return "\n".join(lines)

    def again(self) -> tuple[list[int], list[str]]:
        """What credits with adaptive paths delivered twice, for each run that has such; and the other broken runs."""
        doubled, others = [], []
        for run, result in self.kept.results.items():
            system, value = parse(result.config, run), {row.metric: row.value for row in result.metrics}
            adaptive = system.credits and system.router.credit_path == "adaptive"
            if adaptive and value["doubled"] and not broken(system, value | {"doubled": 0}):
                doubled.append(int(value["doubled"]))
            elif broken(system, value):
                others.append(run)
        return doubled, others

    def twice(self) -> str:
        """The same of credits, in words; nothing if every datagram came once."""
        doubled, _ = self.again()
        if not doubled:
            return ""
        what = f"{sum(doubled):,} datagram{'s' * (sum(doubled) != 1)}"
        return (
            f"Credits with adaptive paths delivered {what} twice, in {len(doubled):,} of {len(self.kept.runs):,} runs: "
            "they do not keep the order, and their slots do not linger."
        )


def written(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}" if value >= 1 else f"{value:.3f}"


def between(value: Value | None) -> str:
    """A mean, and half of its interval of 95 % where the digits of the mean show one."""
    mean = written(value.mean if value else None)
    if value is None or value.high is None:
        return mean
    digits = len(mean.partition(".")[2])
    half = f"{value.high - value.mean:,.{digits}f}"
    return f"{mean} ± {half}" if half.strip("0.") else mean


@dataclass(frozen=True, kw_only=True)
class Hypothesis:
    """What was expected, what was found, and whether it holds: everywhere, nowhere, or (None) here and there."""

    expected: str
    found: str
    holds: bool | None

    @property
    def verdict(self) -> str:
        return {True: "confirmed", False: "refuted", None: "true for some"}[self.holds]


class Target(Hypothesis):
    """What was aimed at, and what was measured."""

    @property
    def verdict(self) -> str:
        return {True: "met", False: "missed", None: "met in part"}[self.holds]


def judged(expected: str, ratios: Sequence[tuple[str, float]], bound: float, *, least: bool) -> Hypothesis:
    """A hypothesis about named ratios: all of them at least, or at most, ``bound``."""
    good = [ratio >= bound if least else ratio <= bound for _, ratio in ratios]
    told = ", ".join(f"{name} {ratio:.2f}" for name, ratio in ratios)
    return Hypothesis(expected=expected, found=told, holds=True if all(good) else None if any(good) else False)


def hypotheses(swept: dict[str, Swept]) -> Iterator[Hypothesis]:
    """What was expected of queues, held against the sweeps that are there."""
    full = {"workload.load": "1"}
    beside = [
        (f"{at}{unit}", ratio)
        for name, axis, unit, fixed in (
            ("payload", "payload", "", full),
            ("nodes", "nodes", " nodes", full),
            ("kernels", "kernel", "", {}),
        )
        if name in swept
        for at in swept[name].names(axis)
        for ratio in _times(swept[name], "queue of 1 worm", "credits, 1 worm", {axis: at} | fixed)
    ]
    if beside:
        yield judged("One worm of queue carries twice what credits of as many bits do, or more.", beside, 2, least=True)
    if "load" in swept:
        s = swept["load"]
        yield judged(
            "Two worms of queue carry 0.7 of what credits with 64 flits do, or more.",
            [("saturated", ratio) for ratio in _times(s, "queue of 2 worms", "credits, 64 flits", full)],
            0.7,
            least=True,
        )
        credits = [name for name in s.names("network") if name.startswith("credits")]
        yield judged(
            "Credits carry 1.5 times what discarding does at saturation, or less.",
            [(name, ratio) for name in credits for ratio in _times(s, name, "discards", full)],
            1.5,
            least=False,
        )
    if "kernels" in swept:
        s = swept["kernels"]
        yield judged(
            "Kernels are twice as fast with credits of 64 flits as with discarding, or less.",
            [(at, r) for at in s.names("kernel") for r in _times(s, "credits, 64 flits", "discards", {"kernel": at})],
            2,
            least=False,
        )
        yield from ends(s)
    if "pool" in swept:
        yield from targets(swept["pool"], swept.get("channels", swept["pool"]))
    if "stages" in swept:
        yield from targets(swept["stages"], swept["stages"])
    if "hotspot" in swept:
        yield from elsewhere(swept["hotspot"])


def targets(swept: Swept, best: Swept) -> Iterator[Target]:
    """What pools were to reach beside credits, held against a sweep of pools; ``best`` has more credits."""
    low, full = ({"workload.load": load, "ni.slots": "8"} for load in ("0.05", "1"))
    soon = "99 % within 1.1 times as long or less"
    eight, sixteen = (f"pool of {worms} worms{FREELY}" for worms in (8, 16))
    for expected, metric, one, other, at, bound, least in (
        ("carries 1.5 times as much or more", "goodput", eight, "credits, 1 worm", full, 1.5, True),
        (soon, "latency_p99", eight, "credits, 1 worm", low, 1.1, False),
        (soon, "latency_p99", eight, "credits, 1 worm", full, 1.1, False),
        ("carries 1.3 times as much or more", "goodput", sixteen, "credits, 64 flits", full, 1.3, True),
    ):
        if ratio := swept.times(metric, one, other, at):
            where = f"8 slots, load {at['workload.load']}{swept.where}"
            yield Target(
                expected=f"{one.capitalize()} beside {other}, {where}: {expected}.",
                found=f"{ratio.told}; best of credits: {reference(best, metric, at, least=least)}",
                holds=ratio.mean >= bound if least else ratio.mean <= bound,
            )


def ends(swept: Swept) -> Iterator[Target]:
    """How soon kernels were to end with a pool of 8 worms, pinned or not, beside the best of credits."""
    for kernel, bound in (("sort", 1.0), ("fft", 1.0), ("halo", 1.5), ("bfs", 1.5)):
        at = {"kernel": kernel}
        found = {name: swept.mean("cycles", {"network": name, **at}) for name in swept.names("network")}
        pools = [(cycles, name) for name, cycles in found.items() if cycles and name.startswith("pool of 8 worms")]
        best = [(cycles, name) for name, cycles in found.items() if cycles and credited(name)]
        if pools and best and (ratio := swept.times("cycles", pool := min(pools)[1], other := min(best)[1], at)):
            where = f"{kernel}{swept.where}"
            yield Target(
                expected=f"{pool.capitalize()} beside {other}, {where}: ends within {bound} times as long or less.",
                found=ratio.told,
                holds=ratio.mean <= bound,
            )


def elsewhere(swept: Swept) -> Iterator[Target]:
    """What a hotspot was to do to datagrams that go elsewhere, at most two of a node under way to each destination.

    The target is for one cycle a hop.
    """
    at = {"limit": "2", "ni.slots": "8"}
    pool = f"pool of 8 worms{FREELY}"
    mine = swept.value("others_p99", {"network": pool, **at})
    if mine and not swept.where:
        yield Target(
            expected=f"{pool.capitalize()}, 8 slots, a hotspot, 2 to a node: 99 % of the others within 40 cycles.",
            found=f"{between(mine)} cycles; best of credits: {reference(swept, 'others_p99', at, least=False)}",
            holds=mine.mean <= 40,
        )


def credited(network: str) -> bool:
    """Whether a network of that name has credits."""
    return network.startswith("credits") or "channels" in network


def reference(swept: Swept, metric: str, at: dict[str, str], *, least: bool) -> str:
    """The best network with credits there, and its figure; ``least``: more is better."""
    found = [(value, name) for name in swept.names("network") if credited(name)
             if (value := swept.value(metric, {"network": name, **at}))]  # fmt: skip
    if not found:
        return "–"
    value, name = (max if least else min)(found, key=lambda one: one[0].mean)
    return f"{between(value)} ({name})"


def _times(swept: Swept, one: str, other: str, at: dict[str, str]) -> Iterator[float]:
    """How many times as much (a kernel: as fast) one network does as another; nothing if that is not known."""
    metric = "cycles" if "kernel" in at else "goodput"
    left, right = (swept.mean(metric, {"network": name, **at}) for name in (one, other))
    if left and right:
        yield right / left if metric == "cycles" else left / right


def tables(swept: dict[str, Swept]) -> Iterator[tuple[str, str, str]]:
    """(sweep, title, Markdown) of what the documents quote."""
    rates = {"goodput": "Payload flits per node and cycle", "latency_p50": "Half are delivered within, cycles"}
    slow = {"latency_p99": "99 of 100 are delivered within, cycles"}
    costs, times = {"messages_per_datagram": "Messages per datagram"}, {"cycles": "Cycles to the end"}
    others = {
        "others_p50": "Half of those that go elsewhere are delivered within, cycles",
        "others_p99": "99 of 100 of those that go elsewhere are delivered within, cycles",
    }
    for name, rows, columns, fixed, metrics in (
        ("load", "network", "workload.load", {}, rates | slow | costs),
        ("payload", "network", "payload", {"workload.load": "1"}, rates),
        ("nodes", "network", "nodes", {"workload.load": "1"}, rates),
        ("patterns", "network", "pattern", {"workload.load": "1"}, rates),
        ("patterns", "network", "pattern", {"workload.load": "0.1"}, rates),
        ("kernels", "network", "kernel", {}, times),
        ("captures", "network", "time", {}, times | {"latency_p50": rates["latency_p50"]} | slow | costs),
        ("timeouts", "timeouts", "buffers", {"payload": "4 flits"}, rates | costs),
        ("timeouts", "timeouts", "buffers", {"payload": "32 flits"}, rates | costs),
        ("matter", "change", "traffic", {}, rates | slow | costs),
        ("pool", "network", "workload.load", {"ni.slots": "16"}, rates | slow | costs),
        ("pool", "network", "workload.load", {"ni.slots": "8"}, rates | slow | costs),
        ("stages", "network", "workload.load", {"ni.slots": "16"}, rates | slow | costs),
        ("stages", "network", "workload.load", {"ni.slots": "8"}, rates | slow | costs),
        ("hotspot", "network", "limit", {"ni.slots": "16"}, others | rates),
        ("hotspot", "network", "limit", {"ni.slots": "8"}, others | rates),
        ("channels", "network", "workload.load", {"ni.slots": "16"}, rates | slow | costs),
        ("channels", "network", "workload.load", {"ni.slots": "8"}, rates | slow | costs),
    ):
        if name in swept:
            at = "".join(f", {axis} = {value}" for axis, value in fixed.items())
            for metric, title in metrics.items():
                yield name, title + at, swept[name].table(metric, rows, columns, fixed)
            if name in ("pool", "stages", "channels"):
                yield name, "For as many buffers and wires" + at, at_equal_cost(swept[name], fixed["ni.slots"])


def at_equal_cost(swept: Swept, slots: str) -> str:
    """Markdown: goodput of saturated networks beside the flits that a router of 8 ports buffers, and a link's wires.

    A link has a flit, `valid`, `first`, `last`; with credits a wire back for each channel, and the channel's number.
    """
    head = ("network", "buffers of a router, flits", "wires of a link", "flits, saturated", "bits per wire and cycle")
    lines = ["| " + " | ".join(head) + " |", "| --- |" + " ---: |" * (len(head) - 1)]
    for name in swept.names("network"):
        goodput = swept.mean("goodput", {"network": name, "workload.load": "1", "ni.slots": slots})
        if goodput:
            flits, wires = held(name), wires_of(name)
            cells = (name, f"{flits:,}", str(wires), written(goodput), written(FLIT * goodput / wires))
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def held(network: str) -> int:
    """Flits that a router of 8 ports can buffer in a network of that name, worms of six flits."""
    size = {"worm": WORM, "worms": WORM, "flit": 1, "flits": 1}
    if found := re.match(r"pool of (\d+) worms", network):
        return int(found[1]) * WORM
    if found := re.match(r"(\d+) channels of (\d+) (\w+)", network):
        return PORTS * int(found[1]) * int(found[2]) * size[found[3]]
    if found := re.match(r"(?:queue of|credits,) (\d+) (\w+)", network):
        return PORTS * int(found[1]) * size[found[2]]
    return 0


def wires_of(network: str) -> int:
    """Wires of a link in a network of that name."""
    found = re.match(r"(\d+) channels", network)
    channels = int(found[1]) if found else 1 if network.startswith("credits") else 0
    return FLIT + 3 + channels + max(0, channels - 1).bit_length()


def pictures(swept: Swept, metrics: Sequence[str]) -> Iterator[tuple[str, Figure]]:
    """The figures of some metrics, each with what it was drawn for."""
    for facet in facets(swept.kept):
        for figure in facet.figures:
            if figure.rows[0][len(swept.kept.axes)] in metrics:
                yield facet.title.rpartition(" = ")[2], figure


def page(swept: dict[str, Swept]) -> str:
    """The page that leads to all others."""
    template = environment().from_string(Path(__file__).with_suffix(".html").read_text(encoding="utf-8"))
    return template.render(
        hypotheses=list(hypotheses(swept)),
        pictures=[(name, list(pictures(swept[name], drawn))) for name, drawn in DRAWN.items() if name in swept],
        titles=TITLES,
        notes={name: kept.twice() for name, kept in swept.items()},
        tables=[
            (sweep, about, [(title, *_cells(table)) for name, title, table in tables(swept) if name == sweep])
            for sweep, about in TABLED.items()
            if sweep in swept
        ],
    )


def _cells(table: str) -> tuple[list[str], list[list[str]]]:
    """Head (without its first cell) and rows of a Markdown table."""
    head, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines())
    return head[1:], rows


def quick(text: str) -> str:
    """A sweep with one run at each point, measured for a quarter of the time."""
    text = re.sub(r"(?m)^replicas = \d+", "replicas = 1", text)
    return re.sub(r"(?m)^window = (\d+)", lambda m: f"window = {int(m[1]) // 4}", text)


def moved(text: str, base: Path, sweeps: Path) -> str:
    """A sweep that is read from another directory than ``sweeps``, and has this base."""
    text = text.replace('"../loopback.pcap"', f"'{sweeps.resolve().parent / 'loopback.pcap'}'")
    return text.replace('base = "base.toml"', f"base = '{base.resolve()}'")


def staged(text: str, hop: int) -> str:
    """A sweep, or its base, whose routers take so many cycles, and get a credit back two cycles after its flit."""
    text = re.sub(r'(flow = "credits")(?!.*credit_delay)', r"\1, credit_delay = 2", text)
    if "router = { latency" in text or "base = " in text:
        return text
    if "[base.router]" in text:
        return text.replace("[base.router]\n", f"[base.router]\nlatency = {hop}\n")
    if "[base]" in text:
        return text.replace("[base]\n", f"[base]\nrouter = {{ latency = {hop} }}\n")
    return f"{text}\n[router]\nlatency = {hop}\n"


def excused(told: str, directory: Path) -> bool:
    """Whether a sweep that told this ended badly only for what `Swept.twice` tells."""
    if not re.search(r"(?m)^broken: ", told):
        return False  # It did not come so far.
    doubled, others = Swept(directory).again()
    return bool(doubled) and not others


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=(*SWEEPS, CAMPAIGN), help="this sweep; may be repeated")
    parser.add_argument("--quick", action="store_true", help="one seed, shorter runs")
    parser.add_argument("--hop", type=int, choices=range(2, 6), metavar="CYCLES", help="routers of 2 to 5 stages")
    parser.add_argument(
        "-o", "--output", type=Path, metavar="DIR", help="results (default: build/queues, with --hop 5 build/queues-5)"
    )
    parser.add_argument("--sweeps", type=Path, default=_ROOT / "examples" / "queues", metavar="DIR", help="their TOMLs")
    chosen = parser.parse_args(arguments)
    chosen.output = chosen.output or Path("build/queues" + f"-{chosen.hop}" * bool(chosen.hop))
    chosen.output.mkdir(parents=True, exist_ok=True)
    for name in chosen.only or SWEEPS:
        source = chosen.sweeps / f"{name}.toml"
        if chosen.quick or chosen.hop:
            text, base = source.read_text(encoding="utf-8"), source.with_name("base.toml")
            if chosen.hop:
                text, common = (staged(one, chosen.hop) for one in (text, base.read_text(encoding="utf-8")))
                base = chosen.output / base.name
                base.write_text(common, encoding="utf-8")
            text = moved(quick(text) if chosen.quick else text, base, source.parent)
            source = chosen.output / source.name
            source.write_text(text, encoding="utf-8")
        print(f"queues: {name}", file=sys.stderr, flush=True)
        command = [sys.executable, "-m", "lethe_sim.cli", "sweep", str(source), "-o", str(chosen.output / name)]
        try:
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        except KeyboardInterrupt:
            return 130
        print(done.stdout, end="", file=sys.stderr, flush=True)
        if done.returncode and not excused(done.stdout, chosen.output / name):
            return done.returncode
    there = [name for name in SWEEPS if (chosen.output / name / "summary.parquet").exists()]
    swept = {name: Swept(chosen.output / name) for name in there}
    for name, title, table in tables(swept):
        print(f"\n{TITLES[name]}: {title}\n\n{table}")
    for name, kept in swept.items():
        if note := kept.twice():
            print(f"\n{TITLES[name]}: {note}")
    print()
    for found in hypotheses(swept):
        print(f"- {found.expected} **{found.verdict.capitalize()}**: {found.found}")
    index = chosen.output / "index.html"
    write(index, page(swept))
    print(f"queues: page {index}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
