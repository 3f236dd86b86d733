"""Waivers for Verilator's lint: one for each line that it remarks on, each with its reason."""

import re
import tempfile
from pathlib import Path

from lethe import processes

from .simulators import ToolError, require, verilator_path

#: What generated Verilog may be remarked on, by rule and the beginning of the remark, and why that is harmless.
REASONS = {
    ("DECLFILENAME", ""): "all modules of a design are in one file",
    ("PROCASSINIT", ""): "a register has its reset value at power-on, too",
    ("UNUSEDSIGNAL", "Signal is not used"): "a name for readers, or a record's field that is not needed here",
    ("UNUSEDSIGNAL", "Bits of signal are not used"): "a carry that is cut off, or a part of a record not needed here",
    ("UNUSEDSIGNAL", "Bits of signal are not driven, nor used"): "a part of a register that synthesis found unused",
}
_REMARK = re.compile(r"^%(?:Warning|Error)-(?P<rule>\w+): (?P<file>[^:\n]+):(?P<line>\d+):\d+: (?P<text>.*)$", re.M)


def waivers(text: str, top: str, file: str) -> str:
    """A Verilator configuration that waives what lint says of ``text``, line by line, when it is in ``file``.

    Raises `ToolError` if there is no Verilator, or for a remark that is not in `REASONS`: that is a fault of the RTL.
    """
    require("verilator")
    with tempfile.TemporaryDirectory(prefix="lethe-") as scratch:
        (Path(scratch) / file).write_text(text, encoding="utf-8")
        done = processes.run(
            ["perl", f"{verilator_path()}/verilator", "--lint-only", "-Wall", "--top-module", top, file],
            cwd=scratch,
            capture_output=True,
        )
    remarks = list(_REMARK.finditer(done.stderr))
    if done.returncode and not remarks:
        raise ToolError(f"Verilator's lint failed: {processes.last_words(done.stderr)}")
    lines = ["`verilator_config"]
    for remark in remarks:
        rule = remark["rule"]
        reason = next(
            (r for (of, start), r in REASONS.items() if of == rule and remark["text"].startswith(start)), None
        )
        if reason is None:
            raise ToolError(f"Verilator's lint: {remark[0]}; please report this fault of the RTL")
        lines.append(f'lint_off -rule {rule} -file "*{file}" -lines {remark["line"]}  // {reason}')
    return "\n".join(lines) + "\n"
