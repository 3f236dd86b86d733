"""Captures of links for tests: a run with taps, its packets taken apart by the specification."""

import io
from dataclasses import dataclass

import numpy as np

from lethe.spec.capture import HEADER, PACKING, Mark, Passage
from lethe.spec.config import System
from lethe.spec.events import Kind
from lethe.spec.wire import CRC16, CRC32
from lethe_sim.golden.model import EVENT, Golden
from lethe_sim.wireshark.capture import CaptureWriter
from lethe_sim.workloads import capture_file


@dataclass(frozen=True)
class Seen:
    """A packet: its header by name, and its message."""

    header: dict[str, int]
    message: bytes

    @property
    def whole(self) -> bool:
        return not self.header["marks"] & (Mark.HEADLESS | Mark.FRAGMENT)

    @property
    def passed(self) -> bool:
        return self.header["passage"] == Passage.PASSED

    def fields(self, system: System) -> dict[str, int]:
        """The fields of the message's header."""
        form, number = system.format, int.from_bytes(self.message, "little")
        kind = number & 7
        layout = form.send if kind in (Kind.SEND, Kind.BE) else form.common
        return {field.name: number >> field.offset & (1 << field.width) - 1 for field in layout}

    def good(self, system: System) -> bool:
        """Whether the CRC is right."""
        form, data = system.format, self.message
        if len(data) == form.flit_bytes:
            return form.one_flit_control and data[-2:] == _crc(CRC16, data[:-2], 2)
        end = len(data) - form.crc_flits * form.flit_bytes
        return end > 0 and data[end:] == _crc(CRC32, data[:end], len(data) - end)


def _crc(crc, data: bytes, size: int) -> bytes:
    return crc.of(int.from_bytes(data, "little"), 8 * len(data)).to_bytes(size, "little")


def taken(system: System, links: list[int], cycles: int = 0, *, piece: int = 700) -> tuple[bytes, np.ndarray, Golden]:
    """The capture of a run, piece by piece, with its events and the model at its end."""
    golden = Golden(system, record=True, tapped=links)
    file, events = io.BytesIO(), []
    writer = CaptureWriter(file, system, links)
    limit = cycles or system.run.cycles
    while golden.cycle < limit and not golden.drained:
        golden.run(min(piece, limit - golden.cycle), until_drained=True)
        events.append(golden.take_events())
        writer.take(golden, events[-1])
    writer.finish(golden, np.zeros(0, EVENT))
    return file.getvalue(), np.concatenate(events), golden


def packets(capture: bytes) -> list[Seen]:
    """What is in a capture."""
    names = [name for name, _, _ in HEADER]
    found = []
    for packet in capture_file.parse(capture).packets:
        header = dict(zip(names, PACKING.unpack(packet.data[: PACKING.size]), strict=True))
        assert packet.time == header["cycle"]
        found.append(Seen(header, packet.data[PACKING.size :]))
    return found
