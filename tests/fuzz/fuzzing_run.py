"""Run inputs through `lethe`, and say which of them broke a rule.

As a program, ``python -m tests.fuzz.fuzzing_run FAMILY FIRST COUNT``, it runs the inputs with those seeds and prints
one line of JSON for each; ``--keep`` says where what fails is kept, as files of the corpus.
"""

import argparse
import base64
import contextlib
import faulthandler
import io
import itertools
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from random import Random
from types import SimpleNamespace
from unittest import mock

from lethe.spec.config import System
from lethe_sim import cli
from lethe_sim.trace import TraceWriter
from tests.fuzz.fuzzing_inputs import OF_GOODS, PLAIN, Goods
from tests.fuzz.fuzzing_oracle import OTHER, Ended, changed, contents, faults

#: Seconds of work after which a command is taken to hang; and of waiting, for a machine that may be busy.
HANGS, WAITS = 60.0, 600.0
#: Bytes of memory for what bent numbers ask for.
MEMORY = 6 << 30
#: Options whose value is written.
OUTPUTS = {"--trace", "--vcd", "--output", "-o", "--waivers", "--figures", "--json", "--golden-trace"}


class Hung(BaseException):
    """A command has worked for longer than any may."""


def _hung(number, frame):
    raise Hung


def run(arguments: list[str]) -> Ended:
    """One command in this process, in the current directory."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="strict") for _ in range(2))
    code: int | None = None
    signal.signal(signal.SIGPROF, _hung)
    signal.setitimer(signal.ITIMER_PROF, HANGS)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                code = cli.main(arguments)
            except SystemExit as done:
                code = done.code if isinstance(done.code, int) else 1
    except BaseException as error:
        import traceback

        err.write("".join(traceback.format_exception(error)))
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    out.flush()
    err.flush()
    texts = [stream.buffer.getvalue().decode("utf-8", "replace") for stream in (out, err)]
    return Ended(code=code, out=texts[0], err=texts[1])


def judged(arguments: list[str], here: Path) -> tuple[int | None, list[str]]:
    """The exit code of a command in a directory that holds its inputs, and its faults."""
    before, temporary = contents(here), set(os.listdir(tempfile.gettempdir()))
    os.chdir(here)
    ended = run(arguments)
    found = faults(ended, progress="--progress" in arguments)
    found += changed(before, contents(here), outputs(arguments))
    if left := set(os.listdir(tempfile.gettempdir())) - temporary:
        found.append(f"{OTHER}: temporary files are left: {sorted(left)}")
    return ended.code, found


def outputs(arguments: list[str]) -> set[str]:
    """What the command was told to write, --force and all."""
    named = {value for option, value in itertools.pairwise(arguments) if option in OUTPUTS}
    named |= {word.partition("=")[2] for word in arguments if word.startswith("--") and "=" in word}
    if "--force" in arguments:
        named |= set(arguments)
    # By default: the trace of a run, the page of a trace.
    named |= {
        str(Path(word).with_suffix(suffix))
        for word in arguments
        if Path(word).name.strip(".")
        for suffix in (".parquet", ".html")
    }
    # … and of a sweep.
    named |= {f"{word}/report.html" for word in arguments}
    return {os.path.normpath(name) for name in named if name and "\0" not in name}


def generated(family: str, seed: int, here: Path, goods: Goods | None) -> list[str]:
    """Write the inputs of a seed, and return its command line."""
    chance = Random(f"{family} {seed}")
    if family in PLAIN:
        return PLAIN[family](here, chance)
    assert goods is not None
    return OF_GOODS[family](here, chance, goods)


# What takes long is made once, and Spark is not started for each input.


@contextlib.contextmanager
def prepared(family: str, scratch: Path) -> Iterator[Goods | None]:
    """What a family needs: good inputs, and stand-ins for what would take too long for each."""
    with contextlib.ExitStack() as stack:
        from lethe_sim.sweep.jobs import compile_model

        # Its time is no input's.
        compile_model()
        goods = None
        if family in OF_GOODS or family == "":
            goods = made(scratch)
        stack.enter_context(without_spark())
        if family == "audited":
            from lethe_sim.pipeline.session import session

            spark = stack.enter_context(session("local[1]", "fuzz", memory="1g", brief=True))
            spark.conf.set("spark.sql.shuffle.partitions", "1")
            spark.conf.set("spark.sql.adaptive.enabled", "false")
            warm = contextlib.contextmanager(lambda *_, **__: (yield spark))
            stack.enter_context(mock.patch("lethe_sim.pipeline.session.session", warm))
            stack.enter_context(mock.patch("lethe_sim.pipeline.jobs.session", warm))
        else:
            stack.enter_context(mock.patch("lethe_sim.pipeline.session.session", _no_spark))
            stack.enter_context(mock.patch("lethe_sim.pipeline.jobs.session", _no_spark))
        yield goods


def _no_spark(*_, **__):
    from lethe_sim.pipeline.session import PipelineError

    raise PipelineError("Spark is not started for this input; it has a family of its own")


@contextlib.contextmanager
def without_spark() -> Iterator[None]:
    """Sweeps do their runs in this process, if there are few; simulators and builds are not started."""
    from lethe_sim.lockstep.simulators import ToolError
    from lethe_sim.sweep import jobs
    from lethe_sim.sweep.work import FAILED, attempt

    def spark(work, runs, store, measure, **_) -> int:
        if len(work) > 30:
            raise jobs.SweepFailed(f"{len(work)} runs are too many for a test; take fewer")
        outcomes = [(number, *attempt(task), 0) for number, task in enumerate(work)]
        assert all(kind != FAILED or error for _, kind, error, _ in outcomes)
        jobs._told(outcomes, runs, store)
        return 0

    def cosim(*_, **__):
        raise ToolError("no simulator is started for this input; it has a test of its own")

    with (
        mock.patch("lethe_sim.sweep.jobs._spark", spark),
        mock.patch("lethe_sim.lockstep.cosim.cosim", cosim),
        mock.patch("lethe_sim.lockstep.waivers.waivers", cosim),
        mock.patch("lethe_fpga.build.build", cosim),
    ):
        yield


def made(scratch: Path) -> Goods:
    """Good inputs that take time to make."""
    from tests.helpers.golden_trace import write_golden

    goods = Goods(trace=scratch / "good.parquet", parts=scratch / "parts.parquet", sweep=scratch / "sweep")
    system = System.make(
        topology={"arity": 2, "levels": 1},
        workload={"count": 6, "load": 0.3},
        faults={"loss": 0.05},
        run={"cycles": 2000},
    )
    write_golden(goods.trace, system)
    with mock.patch("tests.helpers.golden_trace.TraceWriter", partial(TraceWriter, part_events=120)):
        write_golden(goods.parts, system)
    (scratch / "base.toml").write_text("[run]\ncycles = 60\n[topology]\nkind = 'wire'\n[workload]\ncount = 3\n")
    (scratch / "sweep.toml").write_text(
        'base = "base.toml"\nreplicas = 2\n[axes]\nworkload.load = [0.1, 0.3]\nni.slots = [2, 4]\n'
    )
    with without_spark(), contextlib.chdir(scratch):
        ended = run(["sweep", "sweep.toml", "-o", "sweep"])
    assert ended.code == cli.GOOD, ended
    return goods


# The corpus.


def keep(path: Path, arguments: list[str], here: Path) -> None:
    """Write an input as a file of the corpus."""
    files = {}
    for root, _, names in os.walk(here):
        for name in names:
            data = Path(root, name).read_bytes()
            try:
                files[os.path.relpath(Path(root, name), here)] = data.decode()
            except UnicodeDecodeError:
                files[os.path.relpath(Path(root, name), here)] = {"base64": base64.b64encode(data).decode()}
    path.write_text(json.dumps({"arguments": arguments, "files": files}, indent=1) + "\n", errors="surrogatepass")


def unpacked(path: Path, here: Path) -> list[str]:
    """Write the files of an entry of the corpus, and return its command line."""
    entry = json.loads(path.read_text())
    for name, text in entry["files"].items():
        (here / name).parent.mkdir(parents=True, exist_ok=True)
        (here / name).write_bytes(text.encode() if isinstance(text, str) else base64.b64decode(text["base64"]))
    return entry["arguments"]


def reproduce(family: str, seed: int) -> str:
    return f"python -m tests.fuzz.fuzzing_run {family} {seed} 1"


def inputs(family: str, first: int, count: int, keeping: Path | None = None) -> Iterator[SimpleNamespace]:
    """Run the inputs with these seeds; of each its seed, its command line and its faults."""
    with tempfile.TemporaryDirectory(prefix="fuzz-") as scratch:
        temporary = Path(scratch, "tmp")
        temporary.mkdir()
        before, start = tempfile.tempdir, os.getcwd()
        try:
            with prepared(family, Path(scratch)) as goods:
                tempfile.tempdir = str(temporary)
                for seed in range(first, first + count):
                    here = Path(scratch, "here")
                    here.mkdir()
                    arguments = generated(family, seed, here, goods)
                    if keeping is not None:
                        keep(keeping / "candidate.json", arguments, here)
                    faulthandler.dump_traceback_later(WAITS, exit=True)
                    code, found = judged(arguments, here)
                    faulthandler.cancel_dump_traceback_later()
                    os.chdir(start)
                    if found and keeping is not None:
                        os.replace(keeping / "candidate.json", keeping / f"{family}-{seed}.json")
                    yield SimpleNamespace(seed=seed, arguments=arguments, code=code, faults=found)
                    shutil.rmtree(here)
        finally:
            tempfile.tempdir = before
            os.chdir(start)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("family", choices=(*PLAIN, *OF_GOODS))
    parser.add_argument("first", type=int)
    parser.add_argument("count", type=int)
    parser.add_argument("--keep", type=Path)
    chosen = parser.parse_args()
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, hard))
    bad = 0
    for tried in inputs(chosen.family, chosen.first, chosen.count, chosen.keep):
        bad += bool(tried.faults)
        print(json.dumps(vars(tried)), flush=True)
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
