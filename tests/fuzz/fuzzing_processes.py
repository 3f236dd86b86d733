"""Inputs as processes of their own: with streams and an environment that nobody would wish for."""

import os
import shutil
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from random import Random
from types import SimpleNamespace

from tests.fuzz.fuzzing_inputs import OF_GOODS
from tests.fuzz.fuzzing_oracle import HANG, ORPHAN, Ended, changed, contents, faults
from tests.fuzz.fuzzing_run import generated, made, outputs
from tests.helpers.marked import running

#: Seconds after which a process is taken to hang, on a machine that may be busy.
WAITS = 300
#: Inputs of the long form, by family; those that would start Spark, a simulator or a build are interrupted instead.
PROCESSES = {
    "toml": 80, "lines": 80, "names": 80, "csv": 30, "parquet": 30, "capture": 30, "trace": 50, "swept": 30,
}  # fmt: skip
#: What is set, or with None not set.
ENVIRONMENTS: dict[str, dict[str, str | None]] = {
    "plain": {},
    "ascii": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    "no such locale": {"LC_ALL": "xx_YY.nothing", "LANG": "x"},
    "latin": {"PYTHONIOENCODING": "latin-1"},
    "ascii, strictly": {"PYTHONIOENCODING": "ascii:strict"},
    "utf-16": {"PYTHONIOENCODING": "utf-16"},
    "no home": {"HOME": None, "XDG_CACHE_HOME": None, "LETHE_CACHE": None},
    "home is a file": {"HOME": "/dev/null", "XDG_CACHE_HOME": "/dev/null", "NUMBA_CACHE_DIR": "/proc/x"},
    "caches that cannot be": {"LETHE_CACHE": "/dev/null/x", "XDG_CACHE_HOME": "/proc/x", "SPARK_LOCAL_DIRS": "/proc/x"},
    "no temporary files": {"TMPDIR": "/nonexistent"},
    "no path": {"PATH": ""},
    "java home": {"JAVA_HOME": "/nonexistent"},
    "java is no java": {"JAVA_HOME": "here"},
    "java options": {"JAVA_TOOL_OPTIONS": "-Xjunk", "PYSPARK_SUBMIT_ARGS": "junk"},
    "terminal": {"TERM": "dumb", "COLUMNS": "1", "LINES": "x"},
    "no columns": {"COLUMNS": "0", "FORCE_COLOR": "1"},
    "python": {"PYTHONDEVMODE": "1", "PYTHONUNBUFFERED": "1", "PYTHONSAFEPATH": "1", "TZ": "nowhere"},
    "numba": {"NUMBA_NUM_THREADS": "0", "NUMBA_OPT": "9", "OMP_NUM_THREADS": "x"},
}
#: Of these every run compiles the golden model, for a minute.
UNCACHED = {"home is a file", "caches that cannot be"}
STREAMS = (
    "", ">&-", "2>&-", "<&-", "<&- >&- 2>&-", ">/dev/full", "2>/dev/full", "| /usr/bin/head -c 1", "| true",
    ">/dev/null", "</dev/full", "2>&1", "0>&1",
)  # fmt: skip
USES = (
    "check c.toml", "check none.toml", "run c.toml --no-audit", "report good.parquet", "ladder good.parquet", "new -",
    "--help", "run --help", "ladder good.parquet --list", "check /dev/stdin",
    "verilog c.toml --block ni", "sweep s.toml --no-report", "frobnicate", "check c.toml --links",
    "compare good.parquet c.toml", "compare good.parquet good.parquet",
)  # fmt: skip


def tried(arguments: list[str], streams: str, environment: str, here: Path) -> tuple[int | None, list[str]]:
    """The exit code of a command in a directory, and its faults."""
    mark, lethe = str(uuid.uuid4()), '"$0" -m lethe_sim.cli "$@"'
    env = {name: value for name, value in (os.environ | ENVIRONMENTS[environment]).items() if value is not None}
    with tempfile.TemporaryDirectory() as told:
        code = f'echo "$?" >"{told}/code"'
        shell = f"({lethe}; {code}) {streams}" if streams.startswith("|") else f"{lethe} {streams}; {code}"
        try:
            done = subprocess.run(
                ["/bin/sh", "-c", shell, sys.executable, *arguments],
                cwd=here, env=env | {"MARK": mark}, capture_output=True, stdin=subprocess.DEVNULL, timeout=WAITS,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return None, [f"{HANG}: {running(mark)}"]
        ended = int(Path(told, "code").read_text())
    encoding = {"utf-16": "utf-16", "latin": "latin-1"}.get(environment, "utf-8")
    out, err = done.stdout.decode(encoding, "replace"), done.stderr.decode(encoding, "replace")
    if streams == "2>&1":
        # The messages are among the rest.
        out, err = "", "".join(line for line in out.splitlines(True) if line.startswith("lethe: "))
    unseen = "2>" in streams and streams != "2>&1"
    found = faults(Ended(code=ended, out=out, err="lethe: \n" if ended in (2, 3) and unseen else err))
    if left := running(mark):
        found.append(f"{ORPHAN}: {left}")
    return ended, found


def processes(family: str, first: int, count: int) -> Iterator[SimpleNamespace]:
    """Run the inputs with these seeds as processes; of each its seed, its command line and its faults."""
    with tempfile.TemporaryDirectory(prefix="fuzz-") as scratch:
        goods = made(Path(scratch)) if family in OF_GOODS else None
        for seed in range(first, first + count):
            here = Path(scratch, "here")
            here.mkdir()
            arguments = generated(family, seed, here, goods)
            chance = Random(f"{family} {seed} process")
            environment, streams = chance.choice(tuple(ENVIRONMENTS)), chance.choice(STREAMS)
            # No process can be given a zero byte.
            arguments = [word for word in arguments if "\0" not in word and len(word) < 100_000]
            before = contents(here)
            code, found = tried(arguments, streams, environment, here)
            found += changed(before, contents(here), outputs(arguments))
            yield SimpleNamespace(seed=seed, arguments=[*arguments, streams, environment], code=code, faults=found)
            shutil.rmtree(here)


def uses(environment: str, here: Path) -> Iterator[tuple[str, str, list[str]]]:
    """Every use with some states of the streams, in a plain environment with all, and the faults."""
    (here / "c.toml").write_text("[topology]\nkind = 'wire'\n[run]\nname = '→'\n[workload]\ncount = 20\n")
    (here / "s.toml").write_text("base = 'c.toml'\n")
    java = here / "here" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\necho 'openjdk version \"21\"' >&2\nexit 1\n")
    java.chmod(0o755)
    good = ["run", "c.toml", "--no-audit", "--trace", "good.parquet"]
    subprocess.run([sys.executable, "-m", "lethe_sim.cli", *good], cwd=here, check=True)
    chance = Random(environment)
    for use in USES:
        # What takes Spark takes long.
        few = 2 if environment != "plain" or use.startswith(("report", "sweep")) else len(STREAMS)
        if environment in UNCACHED and use.startswith(("run c", "sweep")):
            few = 1
        for streams in chance.sample(STREAMS, few):
            yield use, streams, tried(use.split(), streams, environment, here)[1]
