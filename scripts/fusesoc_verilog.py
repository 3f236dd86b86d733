"""A generator of FuseSoC (`lethe_generator.core`): `lethe verilog` from a configuration, as a core of its own.

FuseSoC calls it with a file of parameters, in the directory where the output goes.  Beside the parameters that file has
``files_root``, the directory of the core that uses the generator, and ``vlnv``, the name of the core to write.
"""

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PARAMETERS = ("config", "block", "options")
BLOCKS = ("system", "ni", "router", "fabric")
#: Options that write a file more, and the type of that file.
TYPES = {"--sdc": "SDC", "--xdc": "xdc", "--lpf": "LPF", "--waivers": "vlt"}


def main(arguments: list[str]) -> int:
    """Write Verilog, its header and a core with both; returns the exit code."""
    try:
        import yaml
    except ImportError:
        return fail("no module yaml in this Python; `pip install pyyaml`")
    if len(arguments) != 1:
        return fail("is called by FuseSoC, with a file of parameters")
    given = yaml.safe_load(Path(arguments[0]).read_text(encoding="utf-8"))
    found = given.get("parameters") or {}
    for name in found:
        if name not in PARAMETERS:
            return fail(f"parameters.{name}: no such parameter; known are {', '.join(PARAMETERS)}")
    block, options = found.get("block", "ni"), found.get("options", [])
    if block not in BLOCKS:
        return fail(f"parameters.block: {block!r} is no block; choose one of {', '.join(BLOCKS)}")
    # YAML takes 125 for a number.
    if isinstance(options, list):
        options = [str(option) if type(option) in (int, float) else option for option in options]
    if not isinstance(options, list) or not all(isinstance(option, str) for option in options):
        return fail(f"parameters.options: {options!r} is no list of options; write [--name, a_]")
    if "config" not in found:
        return fail("parameters.config: is missing; name a configuration")
    config = Path(given["files_root"]) / str(found["config"])
    # The sources beside this file, wherever FuseSoC has put them.
    paths = [str(ROOT / folder) for folder in ("hdl", "sim", "fpga")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([*paths, os.environ.get("PYTHONPATH", "")])}
    verilog, header = f"{block}.v", f"{block}.vh"
    command = [sys.executable, "-m", "lethe_sim", "verilog", str(config), "--block", block]
    done = subprocess.run(
        [*command, *options, "-o", verilog, "--header", header, "--force"], env=environment, check=False
    )
    if done.returncode:
        return done.returncode
    words = [word for option in options for word in option.split("=", 1)]
    besides = [{path: {"file_type": TYPES[word]}} for word, path in itertools.pairwise(words) if word in TYPES]
    core = {
        "name": given["vlnv"],
        "filesets": {
            "rtl": {
                "file_type": "verilogSource-2005",
                "files": [{header: {"is_include_file": True}}, verilog, *besides],
            }
        },
        "targets": {"default": {"filesets": ["rtl"]}},
    }
    # What is JSON is YAML.
    name = given["vlnv"].split(":")[2]
    Path(f"{name}.core").write_text(f"CAPI=2:\n{json.dumps(core, indent=2)}\n", encoding="utf-8")
    return 0


def fail(what: str) -> int:
    print(f"lethe_verilog: {what}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
