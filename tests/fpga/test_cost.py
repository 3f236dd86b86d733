"""What is said of a bitstream's cost and of its slowest path, from outputs of real tools cut down to a sample."""

import json
from pathlib import Path

import pytest

from lethe_fpga.build import NAME
from lethe_fpga.cost import block, scopes, shares, slowest

SAMPLE = Path(__file__).with_name("sample")


@pytest.fixture(scope="module")
def netlist():
    return json.loads((SAMPLE / "netlist.json").read_text())


@pytest.fixture(scope="module")
def known(netlist):
    return scopes(netlist, NAME)


@pytest.mark.parametrize(
    ("cell", "name"),
    [
        ("selftest.system.ni0.core.action.is_send_LUT4_B_1_Z", "ni0.action"),
        ("selftest.system.ni3.core.accept$275.mask_TRELLIS_FF_Q", "ni3.accept"),
        ("selftest.system.ni1.core.received.way1.0.2$DPRAM_COMB1", "ni1.received"),
        ("selftest.system.ni2.core.next_rung$186_TRELLIS_FF_Q_1", "ni2"),
        ("selftest.system.ni2.core.transmitter.serialiser.crc_LUT4_Z", "ni2.transmitter"),
        ("selftest.system.fabric.link15.loss.x_TRELLIS_FF_Q", "fabric.link15"),
        ("selftest.system.sent_0_0_TRELLIS_FF_Q", "top"),
        ("selftest.blink_TRELLIS_FF_Q_3", "top"),
        ("clock.first", "clock"),
        ("$PACKER_GND", "top"),
    ],
)
def test_a_cell_belongs_to_a_block(known, cell, name):
    """Ours, whatever Yosys and nextpnr append."""
    assert block(cell, known) == name


def test_the_slowest_path_in_words(known):
    """Of the clock, not of the inputs and outputs; its blocks in order, its times summed."""
    report = json.loads((SAMPLE / "report.json").read_text())
    (clock,) = (name for name, found in report["fmax"].items() if found["constraint"] == 50)
    path = slowest(report, clock, known)
    assert path.logic + path.routing == pytest.approx(1000 / report["fmax"][clock]["achieved"], rel=0.01)
    assert len(path.blocks) > 1 and all(a != b for a, b in zip(path.blocks, path.blocks[1:], strict=False))
    assert all(name.startswith("ni") for name in path.blocks)
    assert path.start.startswith("selftest.system.ni")
    assert str(path) == " → ".join(path.blocks)


def test_blocks_of_a_kind_share_a_row(netlist, known):
    """Four NIs with six block RAMs each, none elsewhere; a carry cell counts for two LUTs, a small RAM for four."""
    rows = {share.block: share for share in shares(netlist, NAME, known)}
    assert sum(row.ram for row in rows.values()) == 24
    assert {name for name, row in rows.items() if row.ram} == {"ni.ack_ladder", "ni.send_ladder", "ni.payloads"}
    assert rows["ni.free"].count == 4 and rows["fabric.router"].count == 4
    kinds = [c["type"] for n, c in netlist["modules"][NAME]["cells"].items() if n.startswith("selftest.system.fabric.")]
    assert rows["fabric.router"].lut == kinds.count("LUT4") + 2 * kinds.count("CCU2C") + 4 * kinds.count(
        "TRELLIS_DPR16X4"
    )
    assert rows["fabric.router"].ff == kinds.count("TRELLIS_FF") > 0
