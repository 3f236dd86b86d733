"""Waveforms: events stand for one cycle, flits come from the words, and GTKWave finds the signals."""

import numpy as np
import pytest

from lethe.spec import trace as layout
from lethe.spec.config import System
from lethe.spec.events import LANE_RX, LANE_TX, LOOP_ACCEPT, Event
from lethe.spec.services.loop import LOOP
from lethe_sim.files import WriteError
from lethe_sim.trace import RAW_EVENT, TraceWriter
from lethe_sim.trace.vcd import write_vcd

SYSTEM = System.make(topology={"kind": "wire"})
EVENTS = [
    (3, 0, LANE_TX, Event.SEND | 1 << 16 | 4 << 32, 1 << 36 | 5),
    (4, 0, LANE_TX, Event.ACK, 7),
    (9, 1, LANE_RX, Event.DELIVER, 1 << 36 | 5),
    (9, 3, 0, Event.LOST, 0),
]


@pytest.fixture
def trace(tmp_path):
    path = tmp_path / "t.parquet"
    with TraceWriter(path, SYSTEM) as writer:
        writer.append(np.array(EVENTS, RAW_EVENT))
        writer.finish(cycles=12, drained=True)
    return path


def changes(path) -> dict[str, list[tuple[int, str]]]:
    """signal → [(time, value)] of a VCD."""
    names, found, scopes, time = {}, {}, [], 0
    for line in path.read_text().splitlines():
        match line.split():
            case ["$scope", _, name, "$end"]:
                scopes.append(name)
            case ["$upscope", "$end"]:
                scopes.pop()
            case ["$var", _, _, key, name, *_]:
                names[key] = ".".join([*scopes, name])
            case [stamp] if stamp.startswith("#"):
                time = int(stamp[1:])
            case [value, key] if key in names:
                found.setdefault(names[key], []).append((time, value[1:]))
            case [bit] if bit[0] in "01" and bit[1:] in names:
                found.setdefault(names[bit[1:]], []).append((time, bit[0]))
    return found


def test_events_stand_for_a_cycle(trace, tmp_path):
    vcd = tmp_path / "t.vcd"
    assert write_vcd(trace, vcd) == 4
    found = changes(vcd)
    assert found["lethe.ni0.tx"] == [(0, "-"), (3, "SEND"), (4, "ACK"), (5, "-")]
    assert [time for time, value in found["lethe.ni0.tx_uid"] if int(value, 2)] == [3, 4]
    assert found["lethe.ni1.rx"] == [(0, "-"), (9, "DELIVER"), (10, "-")]
    assert found["lethe.link1.fault"] == [(0, "-"), (9, "LOST"), (10, "-")]


def test_window(trace, tmp_path):
    assert write_vcd(trace, tmp_path / "t.vcd", first=4, last=8) == 1
    assert changes(tmp_path / "t.vcd")["lethe.ni0.tx"] == [(4, "ACK"), (5, "-")]


def test_flits_from_words(trace, tmp_path):
    words = np.zeros((12, SYSTEM.layout.words), np.uint64)
    words[5, layout.NI_FLAGS] = 0b11
    words[5, layout.NI_FLIT] = 0xAB
    write_vcd(trace, tmp_path / "t.vcd", words=words)
    found = changes(tmp_path / "t.vcd")
    assert found["lethe.ni0.link_valid"] == [(0, "0"), (5, "1"), (6, "0")]
    assert (5, bin(0xAB)[2:]) in found["lethe.ni0.link_data"]


def test_services_have_scopes(tmp_path):
    """Lanes and flags of a service stand in a scope of their own."""
    system = SYSTEM.replace(loop={"slots": 2})
    places = system.layout
    with TraceWriter(tmp_path / "t.parquet", system) as writer:
        writer.append(np.array([(6, places.service_unit(1, 0), LOOP_ACCEPT, Event.LOOPED | 1 << 16, 5)], RAW_EVENT))
        writer.finish(cycles=12, drained=True)
    words = np.zeros((12, places.words), np.uint64)
    words[5, places.service_place(1, 0) + LOOP.flags] = 1 << LOOP.flag_bits.index("completion.valid")
    write_vcd(tmp_path / "t.parquet", tmp_path / "t.vcd", tmp_path / "t.gtkw", words=words)
    found = changes(tmp_path / "t.vcd")
    assert found["lethe.loop1.accept"] == [(0, "-"), (6, "LOOPED"), (7, "-")]
    assert found["lethe.loop1.completion_valid"] == [(0, "0"), (5, "1"), (6, "0")]
    assert found["lethe.loop0.take"] == [(0, "-")] and "lethe.loop0.idle" in found
    assert "lethe.loop1.accept" in (tmp_path / "t.gtkw").read_text()


def test_save_file(trace, tmp_path):
    write_vcd(trace, tmp_path / "t.vcd", tmp_path / "t.gtkw")
    save = (tmp_path / "t.gtkw").read_text()
    assert "lethe.ni0.tx" in save and "lethe.link1.fault" in save and "t.vcd" in save


def test_unwritable(trace, tmp_path):
    with pytest.raises(WriteError, match=r"x.vcd: cannot be written: No such file or directory; nothing is changed"):
        write_vcd(trace, tmp_path / "nowhere" / "x.vcd")
