"""The code of docs/use/integration.md, of docs/use/axi.md and of README.md, run as a reader would."""

import re

import pytest

from lethe.spec.config import System
from lethe.spec.ports import ni_ports
from tests.helpers import ROOT

PAGE = ROOT / "docs" / "use" / "integration.md"
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.push
def test_the_code_of_the_page_runs():
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    assert len(blocks) == 3
    names: dict = {"__name__": "integration"}
    exec(compile("\n".join(blocks), str(PAGE), "exec"), names)
    assert sorted(names["received"]) == sorted(names["SENT"])
    assert names["received"] != []


@pytest.mark.push
def test_the_code_of_the_page_of_axi_runs(capsys):
    page = ROOT / "docs" / "use" / "axi.md"
    (block,) = re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S)
    exec(compile(block, str(page), "exec"), {"__name__": "axi"})
    assert capsys.readouterr().out == f"{b'exactly once!'}\n"


def test_the_verilog_of_the_readme_names_ports_with_their_widths():
    (block,) = re.findall(r"^```verilog\n(.*?)^```", README, re.M | re.S)
    ports, joined = ni_ports(System.make()), re.findall(r"\.(\w+)\((?:(\d+)'d)?", block)
    assert all(name in ports for name, _ in joined) and len(joined) > 30
    assert all(ports[name] == int(width) for name, width in joined if width)


def test_the_figures_of_the_readme_are_those_of_the_results():
    results = re.sub(" +", " ", (ROOT / "docs/reference/results.md").read_text(encoding="utf-8"))
    for told, measured in (
        ("datagrams back to back | 1.0000 |", "datagrams back to back, slots free | 1.0000 ("),
        ("first flit out, NI idle | 14 |", "first flit out, NI idle | 14 to 14 ("),
        (
            "for 256 slots, against 16 slots | +2.5 % |",
            "an NI with 16 and 256 slots | 3,655 and 3,746 (+2.5%)",
        ),
    ):
        assert told in README and measured in results
    row = re.compile(r"^\| area \| ([^|]+) \| ([\d,]+) LUT4 [^|]*, (?:aimed )?(\d+) MHz \|", re.MULTILINE)
    sizes = {name: (lut, mhz) for name, lut, mhz in row.findall(results)}
    lut, mhz = sizes["NI, medium"]
    assert f"| NI of 16 slots on an ECP5, 64-bit flits | {lut} LUT4, {mhz} MHz |" in README
    routers = f"{sizes['mesh router, 32 bit'][1]} MHz, {sizes['tree router, medium'][1]} MHz"
    assert f"| routers: mesh of 32 bit with `router.latency` 4, 4-ary tree of 64 bit with 5 | {routers} |" in README


def test_what_a_section_of_the_results_misses_is_told_on_top():
    results = re.sub(" +", " ", (ROOT / "docs/reference/results.md").read_text(encoding="utf-8"))
    top = results.partition("## Targets that are missed")[2].partition("All other targets are met.")[0]
    missed = re.findall(r"^\| \w+ \| .* \*\*no\*\* \|$", results, re.MULTILINE)
    figures = [re.findall(r"\d+ MHz|[\d.]+ M\b", row)[0].removesuffix(" MHz") for row in missed]
    assert len(figures) > 5 and all(re.search(rf"\b{re.escape(figure)}\b", top) for figure in figures)
