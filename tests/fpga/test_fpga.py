"""The self-test that goes on a board: its LEDs, the boards."""

import re

import pytest
from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.sim import Simulator

from lethe.spec.config import System
from lethe_fpga import top
from lethe_fpga.boards import BOARDS, DEFAULT_MHZ, BoardError, platform_for
from lethe_fpga.build import clock_for, plan
from lethe_fpga.selftest import MIRRORED_NEEDS, NEEDS, SELFTEST, SelfTest, mirrored, selftest
from lethe_fpga.top import ROOM, blink_bits, leds
from lethe_sim import cli
from lethe_sim.golden.model import Golden

LEDS = ("running", "passed", "failed", "status")
ICE40_BOARDS = [name for name in BOARDS if BOARDS[name].mirror]


def small(count: int) -> System:
    """The self-test's system with little traffic, on two nodes, by a seed with which it ends early."""
    sections = {name: dict(section) for name, section in SELFTEST.items()}
    sections["run"] |= {"seed": 7}
    sections["topology"] = {"kind": "tree", "arity": 2, "levels": 1}
    sections["workload"] |= {"count": count}
    return System.make(**sections)


def shown(dut: SelfTest, cycles: int, drive=None) -> list[tuple[int, ...]]:
    """The LEDs of ``dut`` in every cycle."""
    seen = []

    async def watch(ctx):
        for cycle in range(cycles):
            if drive:
                drive(ctx, cycle)
            seen.append(tuple(ctx.get(getattr(dut, name)) for name in LEDS))
            await ctx.tick()

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(watch)
    simulator.run()
    return seen


@pytest.mark.push
def test_leds_tell_that_every_datagram_arrived_once():
    """`passed` comes on once, some cycles after the golden model has drained, and then `running` is steadily on."""
    system = small(4)
    golden = Golden(system)
    drained = golden.run(10_000, until_drained=True)
    assert golden.drained
    seen = shown(SelfTest(system, blink_bits=3), drained + 60)
    first = [passed for _, passed, _, _ in seen].index(1)
    assert 0 <= first - drained <= 8
    assert set(seen[first:]) == {(1, 1, 0, 1)}
    assert {running for running, *_ in seen[:first]} == {0, 1}, "it blinks while datagrams are under way"
    assert [seen[cycle][0] for cycle in range(32)] == [cycle >> 3 & 1 for cycle in range(32)]
    assert all(status == running for running, _, _, status in seen[: drained - 8])


def test_the_golden_model_ends_the_self_test_well():
    """Its four nodes, with a hundredth of its traffic: all that was sent has arrived, once."""
    sections = SELFTEST | {"workload": SELFTEST["workload"] | {"count": 1000}}
    golden = Golden(System.make(**sections))
    golden.run(20_000_000, until_drained=True)
    assert golden.drained
    sums = {name: int(found.sum()) % 2**32 for name, found in golden.sums.items()}
    assert sums["sent"] == sums["received"] == 4000
    assert sums["sent_sum"] == sums["received_sum"] and sums["wrong"] == 0


class Stub(wiring.Component):
    """A system that has ended when told so, and is never right."""

    def __init__(self):
        super().__init__({"over": In(1), "done": Out(1), "idle": Out(1), "ok": Out(1)})

    def elaborate(self, platform):
        m = Module()
        m.d.comb += [self.done.eq(self.over), self.idle.eq(self.over)]
        return m


def test_leds_tell_that_a_datagram_was_lost():
    """All has ended, `ok` never comes: `failed` within two blinks, and one LED alone flickers."""
    stub, end = Stub(), 100
    dut = SelfTest(small(3), blink_bits=4, core=stub)
    seen = shown(dut, 300, lambda ctx, cycle: ctx.set(stub.over, cycle >= end))
    assert not any(passed for _, passed, _, _ in seen)
    first = [failed for _, _, failed, _ in seen].index(1)
    assert end < first <= end + 2 * 16 + 1
    assert all(running and failed for running, _, failed, _ in seen[first:])
    changes = sum(seen[i][3] != seen[i + 1][3] for i in range(first, first + 128))
    assert changes == 64, "eight times as often as a blink"


@pytest.mark.parametrize("name", BOARDS)
def test_every_board_shows_every_state(name):
    """With two LEDs, three colours or one; the state of one LED alone holds all that two tell."""
    resources = platform_for(name).resources
    chosen = leds(platform_for(name))
    assert all(resource[:2] in resources for resource in chosen.values())
    assert set(chosen) in ({"running", "passed"}, {"blue", "green", "red"}, {"status"})


def test_leds_of_the_boards():
    kinds = {name: len(leds(platform_for(name))) for name in BOARDS}
    assert kinds["ulx3s_25f"] == 2 and kinds["orangecrab_25f"] == 3 and kinds["colorlight_5a75e"] == 1


class Dark(wiring.Component):
    """Stands for the self-test, which takes seconds to write out."""

    def __init__(self, system, bits, core=None):
        self.blink_bits = bits
        super().__init__({name: Out(1) for name in LEDS})

    def elaborate(self, platform):
        m = Module()
        counter = Signal(8)
        m.d.sync += counter.eq(counter + 1)
        m.d.comb += [getattr(self, name).eq(counter[i]) for i, name in enumerate(LEDS)]
        return m


def cells(rtl: str, kind: str) -> list[dict[str, str]]:
    """The ports of all cells of one kind in RTLIL, and the wires at them."""
    found = re.findall(rf"^  cell \\?{re.escape(kind)} .*\n((?:    .*\n)*)", rtl, re.MULTILINE)
    return [dict(re.findall(r"connect \\(\w+) (\S+)", body)) for body in found]


@pytest.mark.parametrize("name", [name for name in BOARDS if name not in ICE40_BOARDS])
def test_every_board_has_its_pll_and_its_leds(name, monkeypatch):
    """The files for the tools: one PLL that is set as computed, lock into reset, a pin for the clock and each LED."""
    monkeypatch.setattr(top, "SelfTest", Dark)
    clock = clock_for(name, None)
    assert clock.mhz == BOARDS[name].mhz == DEFAULT_MHZ
    files = plan(name, selftest(), clock, 1).files
    rtl, pins = str(files["lethe_selftest.il"]), str(files["lethe_selftest.lpf"])
    ((pll,), (gsr,), (first, second)) = (cells(rtl, kind) for kind in ("EHXPLLL", "SGSR", "FD1S3AX"))
    assert {gsr["CLK"], first["CK"], second["CK"]} == {pll["CLKOS"]} and pll["CLKFB"] == pll["CLKOP"]
    assert gsr["GSR"] == second["Q"] and second["D"] == first["Q"]
    (run,) = (gate for gate in cells(rtl, "$and") if gate["Y"] == first["D"])
    assert run["A"] == pll["LOCK"]
    for parameter, value in {
        "CLKI_DIV": clock.reference,
        "CLKFB_DIV": clock.feedback,
        "CLKOP_DIV": clock.loop,
        "CLKOS_DIV": clock.output,
    }.items():
        assert f"parameter \\{parameter} {value}\n" in rtl.replace("signed ", "").replace("32'", "")
    assert f"{float(clock.input) * 1e6} HZ" in pins
    assert pins.count("LOCATE COMP") == pins.count("IOBUF PORT") >= 1 + len(leds(platform_for(name)))
    # Large designs have options of their own for Yosys, and nextpnr's usual router, which routes anew what is too slow.
    large = "85F" in BOARDS[name].about
    yosys = str(files["lethe_selftest.ys"])
    assert ("synth_ecp5 -nowidelut" in yosys) == large
    # Logic is mapped by a script of ABC that is chosen before synthesis.
    assert 0 < yosys.index("abc9.script.flow abc9.script") < yosys.index("synth_ecp5")
    script = str(files["build_lethe_selftest.sh"])
    assert "--router" not in script and script.count("--tmg-ripup") == 1


@pytest.mark.parametrize("name", ICE40_BOARDS)
def test_every_ice40_has_its_pll_its_gate_and_its_leds(name, monkeypatch):
    """One PLL, set as computed; its clock through a gate that opens while it is low, held to its frequency."""
    monkeypatch.setattr(top, "SelfTest", Dark)
    clock = clock_for(name, None)
    assert clock.mhz == BOARDS[name].mhz
    files = plan(name, mirrored(), clock, 1, mirror=True).files
    rtl, pins = str(files["lethe_selftest.il"]), str(files["lethe_selftest.pcf"])
    kind = {"icebreaker": "SB_PLL40_PAD"}.get(name, "SB_PLL40_CORE")
    ((pll,), (buffer,)) = (cells(rtl, kind) for kind in (kind, "SB_GB"))
    (gate,) = (gate for gate in cells(rtl, "$and") if gate["Y"] == buffer["USER_SIGNAL_TO_GLOBAL_BUFFER"])
    assert gate["A"] == pll["PLLOUTCORE"]
    (opened,) = (i for i in re.finditer(r"  cell \$dff .*\n(?:    .*\n)*", rtl) if f"connect \\Q {gate['B']}\n" in i[0])
    assert "parameter \\CLK_POLARITY 0\n" in opened[0]
    for parameter, value, bits in (
        ("DIVR", clock.reference - 1, 4),
        ("DIVF", clock.feedback - 1, 7),
        ("DIVQ", clock.power, 3),
        ("FILTER_RANGE", clock.filter, 3),
    ):
        assert f"parameter \\{parameter} {bits}'{value:0{bits}b}\n" in rtl
    assert re.findall(r"set_frequency \S+ (\S+)", pins) == ["12.0"]
    assert f"--freq {float(clock.mhz)} " in str(files["build_lethe_selftest.sh"]).replace("\n", " ")
    assert pins.count("set_io") == 1 + len(leds(platform_for(name)))


def test_blinks_can_be_seen():
    """A blink lasts between a quarter and half a second, whatever the clock."""
    for mhz in (4, 25, 50, 100, 400):
        assert 0.2 < 2 ** blink_bits(mhz) / (mhz * 1e6) < 0.5


def test_the_list_of_boards(capsys):
    """Clock, device, LEDs, and whether the self-test fits, with the default marked."""
    assert cli.main(["fpga", "boards"]) == 0
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    assert list(lines) == list(BOARDS)
    for name, line in lines.items():
        assert platform_for(name).device in line and " MHz " in line and "self-test fits" in line
    assert lines["ulx3s_25f"].endswith("(default)") and "100 MHz" in lines["versa_ecp5"]
    assert all(NEEDS[cell] < ROOM["LFE5U-25F"][cell] for cell in NEEDS)
    for device in ("iCE40UP5K", "iCE40HX8K"):
        assert all(MIRRORED_NEEDS[cell] < ROOM[device][cell] for cell in MIRRORED_NEEDS)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--mhz", "500"], "lethe: --mhz: 500 MHz: a PLL of the ECP5 makes 3.125 to 400 MHz"),
        (["--board", "ulx4s"], "lethe: no such board 'ulx4s'; known are ulx3s_25f, "),
        (["--board", "icebreaker", "--mhz", "15"], "lethe: --mhz: 15 MHz: a PLL of the iCE40 makes 16 to 275 MHz"),
        (["--mirror"], "lethe: --mirror: is for a configuration; name one, or leave it out and take an iCE40"),
    ],
)
def test_mistakes_are_told_before_anything_runs(arguments, message, capsys, tmp_path):
    assert cli.main(["fpga", "build", "-o", str(tmp_path / "out"), *arguments]) == cli.MISTAKE
    assert capsys.readouterr().err.startswith(message)
    assert not (tmp_path / "out").exists()


def test_a_board_has_only_the_hardware_generator(capsys, tmp_path):
    """Other workloads are a simulator's."""
    path = tmp_path / "pattern.toml"
    path.write_text('[topology]\nkind = "wire"\n[workload]\nkind = "pattern"\n')
    assert cli.main(["fpga", "build", str(path), "-o", str(tmp_path / "out")]) == cli.MISTAKE
    assert "workload.kind: a board has only the hardware generator" in capsys.readouterr().err


def test_what_cannot_be_mirrored_is_told(capsys, tmp_path):
    path = tmp_path / "tree.toml"
    path.write_text('preset = "small"\n')
    out = tmp_path / "out"
    assert cli.main(["fpga", "build", str(path), "--mirror", "--board", "icebreaker", "-o", str(out)]) == cli.MISTAKE
    assert capsys.readouterr().err == (
        f"lethe: {path}: topology.kind: a mirror is beside a router of a mesh, not of a tree; "
        'set it to "mesh", or build the whole system\n'
    )
    assert not out.exists()


def test_unknown_board_is_named_with_those_that_are_known():
    with pytest.raises(BoardError, match="no such board 'ulx4s'; known are ulx3s_25f"):
        platform_for("ulx4s")
