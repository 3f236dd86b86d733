"""Times the golden model of these files and that of another commit on one system, in pairs of runs that take turns.

The system has 64 nodes in a tree, at load 0.05 and saturated; ``--set`` changes it.  Both commits must know its keys.
Each commit's model runs in a process of its own, compiled before it is timed.  Times are CPU time.  A line for each
load gives the median of the pairs' ratios, its quartiles, and the datagrams that each delivered.  A ratio is of CPU
time per delivered datagram, as the two may deliver more or less in as many cycles; that per cycle stands beside it.

The exit code is 0 if each median per delivered datagram is at least `LEAST`, 1 if one is less, 2 for a wrong argument
or if nothing is delivered, 130 if interrupted.
"""

import argparse
import io
import json
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

ROOT = Path(__file__).parent.parent
#: How fast the golden model must be, beside the one before.
LEAST = 0.98
#: Cycles before those that are timed, and timed ones, each turn.
CYCLES = 1000, 20_000
#: What the processes run: for each line they get, a load, one line with CPU seconds and delivered datagrams.
TURN = """
import json, sys, time
from lethe.spec.config import System
from lethe_sim.golden.model import Counter, Golden
sections, (first, timed) = json.loads(sys.argv[1])
system = System.make(**sections)
for line in sys.stdin:
    golden = Golden(system.replace(workload={"load": float(line)}))
    golden.run(first)
    before = golden.counters[:, Counter.DELIVERED].sum()
    started = time.process_time()
    golden.run(timed)
    spent = time.process_time() - started
    print(json.dumps([spent, int(golden.counters[:, Counter.DELIVERED].sum() - before)]), flush=True)
"""


class BesideError(ValueError):
    """A commit or a setting that cannot be timed; the message is one line with the cure."""


def unpack(revision: str, into: Path) -> None:
    """The files of `revision` below `into`.  Raises `BesideError`."""
    command = ["git", "-C", ROOT, "archive", "--format=zip", revision, "hdl", "sim"]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode:
        raise BesideError(f"{revision}: {done.stderr.decode().strip().splitlines()[0]}; name a commit of this project")
    with zipfile.ZipFile(io.BytesIO(done.stdout)) as archive:
        archive.extractall(into)


@contextmanager
def timer(tree: Path, cache: Path, sections: dict) -> Iterator[subprocess.Popen]:
    """A process that times the golden model of the files below `tree`."""
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(str(tree / name) for name in ("hdl", "sim")),
        "NUMBA_CACHE_DIR": str(cache),
    }
    arguments = [sys.executable, "-c", TURN, json.dumps([sections, CYCLES])]
    with subprocess.Popen(
        arguments, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def turn(process: subprocess.Popen, name: str, load: float) -> tuple[float, int]:
    """CPU seconds and delivered datagrams of one run.  Raises `BesideError`."""
    assert process.stdin is not None and process.stdout is not None and process.stderr is not None
    with suppress(BrokenPipeError):  # it has ended, which the empty line tells
        print(load, file=process.stdin, flush=True)
    line = process.stdout.readline()
    if not line:
        last = (process.stderr.read().strip().splitlines() or ["no message"])[-1]
        raise BesideError(f"{name}: does not run this system: {last}; name a later commit, or set less")
    spent, delivered = json.loads(line)
    return spent, delivered


def compare(revision: str, sections: dict, pairs: int) -> Iterator[tuple[str, float]]:
    """For each load a line of text and the median ratio, the speed of these files beside that of `revision`.

    The speed is in delivered datagrams; the text has that in cycles, too.  Raises `BesideError`.
    """
    with ExitStack() as stack:
        other = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="lethe-beside-")))
        unpack(revision, other)
        names = "these files", revision
        timers = [
            stack.enter_context(timer(tree, other / f"compiled{number}", sections))
            for number, tree in enumerate((ROOT, other))
        ]
        for load in (0.05, 1.0):
            found: list[tuple[list[float], int]] = []
            try:
                for pair in range(-1, pairs):  # the first compiles
                    print(f"\rload {load:g}: {max(pair, 0)} of {pairs} pairs", end="", file=sys.stderr, flush=True)
                    turns = [turn(process, name, load) for process, name in zip(timers, names, strict=True)]
                    if pair < 0:
                        found = [([], delivered) for _, delivered in turns]
                    else:
                        for (times, _), (spent, _) in zip(found, turns, strict=True):
                            times.append(spent)
            finally:
                print(file=sys.stderr)
            (ours, delivered), (theirs, delivered_before) = found
            if not (delivered and delivered_before):
                raise BesideError(f"load {load:g}: nothing is delivered; give --set a system that delivers")
            ratios = sorted(before / now for now, before in zip(ours, theirs, strict=True))
            low, per_cycle, high = (ratios[pairs * quarter // 4] for quarter in (1, 2, 3))
            more = delivered / delivered_before
            yield (
                f"load {load:g}: {per_cycle * more:.3f} of the speed of {revision} per delivered datagram "
                f"(quartiles {low * more:.3f}, {high * more:.3f} of {pairs} pairs), {per_cycle:.3f} per cycle; "
                f"delivered {delivered:,} and {delivered_before:,}",
                per_cycle * more,
            )


def settings(given: list[str]) -> dict:
    """The system's sections: 64 nodes in a tree, changed by ``section.key=value``.  Raises `BesideError`."""
    sections: dict = {
        "topology": {"kind": "tree", "arity": 4, "levels": 3},
        "workload": {"min_length": 32, "max_length": 32, "count": 0},
    }
    for setting in given:
        path, equals, value = setting.partition("=")
        section, dot, key = path.partition(".")
        if not (equals and dot):
            raise BesideError(f"--set {setting}: is no setting; write it as section.key=value")
        try:
            sections.setdefault(section, {})[key] = json.loads(value)
        except ValueError:
            sections[section][key] = value
    return sections


def main(arguments: list[str] | None = None) -> int:
    """Print the lines; returns an exit code."""
    parser = argparse.ArgumentParser(prog="scripts/beside", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("revision", help="the commit to time beside these files")
    parser.add_argument("--pairs", type=int, default=21, metavar="N", help="pairs of runs at each load, 21")
    parser.add_argument("--set", action="append", default=[], metavar="section.key=value", help="may be repeated")
    chosen = parser.parse_args(arguments)
    if chosen.pairs < 1:
        parser.error("--pairs must be at least 1")
    slow = False
    try:
        for line, median in compare(chosen.revision, settings(chosen.set), chosen.pairs):
            print(line, flush=True)
            slow |= median < LEAST
    except BesideError as error:
        print(f"beside: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return int(slow)


if __name__ == "__main__":
    sys.exit(main())
