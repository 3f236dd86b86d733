"""Holds the reference with credits against BookSim 2 (docs/studies/credits.md): saturation, and latency over load.

A binary of BookSim is given with --booksim; nothing of BookSim is in this project.  Without one the figures of the
reference stand alone.  The exit code is 1 if a figure differs by more than 10 %, 2 if BookSim cannot be run.
"""

import argparse
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from lethe.spec.config import System
from lethe_sim.golden.study.plain import Plain, plain_packets

#: The most that a figure may differ, as a share of BookSim's.
BOUND = 0.1
LOADS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6)
#: What BookSim calls the choice among up-ports: a drawn port, or the better one of two that are drawn.
ROUTING = {"pinned": "nca", "adaptive": "anca"}


class Setting(NamedTuple):
    """A network: flits of a channel's buffer, channels, choice of up-ports, and flits offered per node and cycle."""

    flits: int
    channels: int
    path: str
    load: float = 1.0


class Row(NamedTuple):
    """A setting, and what both made of it; None: BookSim was not run."""

    setting: Setting
    here: Plain
    there: Plain | None


class NoBookSim(Exception):
    """BookSim cannot be run, or said nothing that is understood."""


SETTINGS = [
    *(Setting(flits, 1, "pinned") for flits in (4, 16, 64)),
    *(Setting(flits, channels, path) for path in ROUTING for channels, flits in ((2, 4), (2, 16), (4, 4), (4, 16))),
    *(Setting(16, 4, "pinned", load) for load in LOADS),
]


def reference(setting: Setting, cycles: int) -> Plain:
    """The reference with the times of BookSim's router: a hop of three cycles, one to route, one to choose."""
    system = System.make(
        topology={"kind": "tree", "arity": 4, "levels": 3},
        router={
            "flow": "credits", "credit_flits": setting.flits, "credit_channels": setting.channels,
            "credit_path": setting.path, "latency": 3, "credit_delay": 2,
        },
        timers={"wrap_guard": 0},
    )  # fmt: skip
    return plain_packets(system, setting.load, 4, cycles, warm_up=cycles // 3, route_delay=1, grant_delay=1)


def told(setting: Setting, cycles: int) -> str:
    """A configuration of BookSim."""
    options = {
        "topology": "fattree", "k": 4, "n": 3, "routing_function": ROUTING[setting.path],
        "num_vcs": setting.channels, "vc_buf_size": setting.flits, "hold_switch_for_packet": int(setting.channels > 1),
        "traffic": "uniform", "packet_size": 4, "injection_rate": setting.load, "injection_rate_uses_flits": 1,
        "sim_type": "throughput" if setting.load == 1 else "latency", "sample_period": cycles // 5, "max_samples": 5,
        "warmup_periods": 2, "latency_thres": 1e9, "seed": 1,
    }  # fmt: skip
    return "".join(f"{name} = {value};\n" for name, value in options.items())


def booksim(binary: Path, setting: Setting, cycles: int) -> Plain:
    """What BookSim says; raises `NoBookSim`."""
    with tempfile.TemporaryDirectory() as directory:
        settings = Path(directory) / "settings"
        settings.write_text(told(setting, cycles), encoding="utf-8")
        command = [str(binary.resolve()), str(settings)]
        try:
            ran = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, cwd=directory)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise NoBookSim(f"--booksim {binary}: {error}") from None
    found = [
        re.findall(rf"{what} average = ([0-9.e+-]+)", ran.stdout) for what in ("Accepted flit rate", "Packet latency")
    ]
    if not all(found):
        raise NoBookSim(f"--booksim {binary}: printed no accepted flit rate and packet latency; is it BookSim 2?")
    return Plain(*(float(figures[-1]) for figures in found))


def difference(row: Row) -> float | None:
    """By which share of BookSim's the figure of a row differs: latency under a load, goodput at saturation."""
    if row.there is None:
        return None
    if row.setting.load == 1:
        return row.here.accepted / row.there.accepted - 1
    return row.here.latency / row.there.latency - 1


def table(rows: Sequence[Row]) -> str:
    """Markdown: accepted flits per node and cycle at saturation, mean cycles of a packet below."""
    lines = [
        "| channels | n | up-ports | load | BookSim | here | |",
        "| ---: | ---: | --- | ---: | ---: | ---: | ---: |",
    ]
    for row in rows:
        at, off = row.setting, difference(row)
        figures = [
            "–" if of is None else f"{of.accepted:.3f}" if at.load == 1 else f"{of.latency:.1f} cycles"
            for of in (row.there, row.here)
        ]
        path = {"pinned": "drawn", "adaptive": "adaptive"}[at.path]
        cells = [at.channels, at.flits, path, f"{at.load:g}", *figures, "" if off is None else f"{off:+.1%}"]
        lines.append("| " + " | ".join(map(str, cells)).replace("-", "−") + " |")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--booksim", type=Path, metavar="BINARY", help="BookSim 2, built elsewhere")
    parser.add_argument("--cycles", type=int, default=10_000, metavar="N", help="of each run (default: %(default)s)")
    chosen = parser.parse_args(arguments)
    if chosen.cycles < 100:
        parser.error(f"--cycles: must be 100 or more, not {chosen.cycles}")
    rows = []
    for setting in SETTINGS:
        try:
            there = booksim(chosen.booksim, setting, chosen.cycles) if chosen.booksim else None
        except NoBookSim as error:
            print(f"booksim: {error}", file=sys.stderr)
            return 2
        rows.append(Row(setting, reference(setting, chosen.cycles), there))
    print(table(rows))
    if not chosen.booksim:
        print("booksim: the reference alone; give --booksim BINARY for a comparison", file=sys.stderr)
    far = [row for row in rows if abs(difference(row) or 0) > BOUND]
    for row in far:
        print(f"booksim: {row.setting} differs by {difference(row):+.1%}", file=sys.stderr)
    return 1 if far else 0


if __name__ == "__main__":
    sys.exit(main())
