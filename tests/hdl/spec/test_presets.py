"""Presets: whole configurations that a file names, and of which it says only what it changes."""

import re

import pytest

from lethe.spec.config import ConfigError, System, parse, preset_example
from lethe.spec.presets import PRESETS
from lethe.spec.sections import SECTIONS
from lethe.spec.toml import dump
from lethe_sim.sweep.plan import load
from tests.helpers import ROOT


def test_the_sizes_of_the_presets():
    """Flit bits, slots, receive entries, statistics: what an NI of each name is."""
    found = {}
    for name in PRESETS:
        system = System.make(preset=name)
        found[name] = (
            system.wire.flit_bits,
            system.ni.slots,
            system.ni.sets * system.ni.ways,
            system.ni.statistics,
        )
    assert found == {
        "tiny": (16, 4, 8, False),
        "small": (32, 8, 32, False),
        "medium": (64, 16, 64, True),
        "large": (64, 256, 1024, True),
    }
    assert System.make(preset="medium") == System.make()


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_sets_nothing_to_its_default(name):
    """So the table of presets says how each differs."""
    for section, table in PRESETS[name].tables.items():
        for key, value in table.items():
            assert value != getattr(SECTIONS[section](), key), f"{section}.{key}"


@pytest.mark.parametrize("name", PRESETS)
def test_the_file_of_a_preset_is_the_preset(name):
    """As it is written, and with every key that it shows taken out of its comment."""
    text = preset_example(name)
    assert parse(text, "x") == System.make("x", preset=name)
    shown = "\n".join(line.removeprefix("# ") if "  # " in line else line for line in text.splitlines())
    assert parse(shown, "x") == System.make("x", preset=name)
    assert len(re.findall(r"^\w+ = ", shown, re.MULTILINE)) == 1 + sum(map(len, PRESETS[name].tables.values()))


def test_a_file_says_only_what_it_changes():
    """A key of the file counts, then the preset's, then the default; a trace says it all without the preset."""
    system = parse('preset = "small"\n[ni]\nslots = 12\n[faults]\nloss = 0.1\n', "x")
    assert system == System.make(
        "x", wire={"flit_bits": 32}, ni={"slots": 12, "sets": 8, "statistics": False}, faults={"loss": 0.1}
    )
    assert parse(dump(system), "x") == system and "preset" not in dump(system)
    assert parse('preset = "small"\n[ni]\nslots = 16\n').ni.slots == 16, "set back to the default"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('preset = "smaller"', "preset: no such preset 'smaller'; did you mean small?"),
        ('preset = "x"', "preset: no such preset 'x'; known are tiny, small, medium, large"),
        ("preset = 3", "preset: must be a text in quotes, not 3; name one of tiny, small, medium, large"),
        ('[ni]\npreset = "tiny"', "ni.preset: no such key; move preset before the first table"),
        ('preset = "tiny"\nni = 4', "ni: must be a table, not 4; write [ni]"),
        ('preset = "tiny"\n[ni]\nslot = 4', "ni.slot: no such key; did you mean slots?"),
        ('preset = "tiny"\n[ni]\nsets = 3', "ni.sets: must be a power of two, not 3; take 4"),
    ],
)
def test_mistakes_with_presets(text, message):
    with pytest.raises(ConfigError) as raised:
        parse(text, "my.toml")
    assert str(raised.value) == f"my.toml: {message}"


def test_the_base_of_a_sweep_may_name_a_preset(tmp_path):
    path = tmp_path / "sweep.toml"
    path.write_text('base = { preset = "tiny", run.cycles = 1000 }\naxes = { ni.slots = [2, 8] }\n')
    systems = [run.system for run in load(path).runs]
    assert [(s.ni.slots, s.ni.ways, s.wire.flit_bits) for s in systems] == [(2, 2, 16), (8, 2, 16)]


def test_the_systems_for_one_ecp5():
    """16 of small and their tree, 4 of medium: presets with another size of network and a workload for a board."""
    found = {path.stem: parse(path.read_text(), path.stem) for path in (ROOT / "examples" / "fpga").glob("*.toml")}
    assert {name: system.nodes for name, system in found.items()} == {"small16": 16, "medium4": 4}
    for name, system in found.items():
        preset = System.make(preset=name.rstrip("0123456789"))
        assert (system.ni, system.wire, system.timers) == (preset.ni, preset.wire, preset.timers)
        assert system.workload.kind == "generator"
