"""The registers of an NI for other tools: SystemRDL, and what PeakRDL makes of it."""

import contextlib
import importlib.util
import io
import typing
from pathlib import Path

from lethe.spec.rdl import ADDRESS_MAP, rdl
from lethe.spec.registers import RegisterMap
from lethe_sim import files
from lethe_sim.files import MARK
from lethe_sim.lockstep.simulators import ToolError

__all__ = ["require", "write"]

#: What of the output is where in its directory; the Python package has the name of the address map.
HEADER, HTML = f"{ADDRESS_MAP}_registers.h", "html"


def require() -> None:
    """Raise `ToolError` if a tool is not installed."""
    for name in ("systemrdl", "peakrdl_cheader", "peakrdl_html", "peakrdl_python"):
        if importlib.util.find_spec(name) is None:
            raise ToolError(f"--registers: needs {name}, which is not installed; pip install 'lethe[registers]'")


def write(found: RegisterMap, directory: str | Path, *, prefix: str = "") -> None:
    """Write the registers into a directory, which is replaced as a whole.

    In it are, with ``prefix`` before their names, ``lethe_ni.rdl``, ``lethe_ni_registers.h`` (from C99 and C++11 on),
    the Python package ``lethe_ni``, which needs `peakrdl_python`, and ``html/index.html``.  Raises `ToolError` if the
    tools are not installed, `WriteError` if it cannot be written.
    """
    require()
    from peakrdl_cheader.c_standards import CStandard
    from peakrdl_cheader.exporter import CHeaderExporter
    from peakrdl_html import HTMLExporter
    from peakrdl_python.exporter import PythonExporter
    from peakrdl_python.systemrdl_node_hashes import NodeHashingMethod
    from systemrdl.compiler import RDLCompiler

    with files.whole_directory(directory) as part:
        source = part / f"{prefix}{ADDRESS_MAP}.rdl"
        source.write_text(f"// {MARK}, lethe verilog --registers\n{rdl(found, prefix=prefix)}", encoding="utf-8")
        compiler = RDLCompiler()
        compiler.compile_file(str(source))
        top = compiler.elaborate().top
        CHeaderExporter().export(top, str(part / f"{prefix}{HEADER}"), reuse_typedefs=False, std=CStandard.gnu99)
        # Its annotation says that a title is a dictionary.
        title: typing.Any = "Registers of a network interface"
        HTMLExporter(generate_source_links=False).export(top, str(part / HTML), title=title)
        # Names of classes that are the same every time; its own library stays where it is installed.
        with contextlib.redirect_stdout(io.StringIO()):
            PythonExporter().export(
                top,
                str(part),
                delete_existing_package_content=False,
                skip_test_case_generation=True,
                skip_library_copy=True,
                hashing_method=NodeHashingMethod.SHA256,
            )
