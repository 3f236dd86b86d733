"""The cocotb bench behind `rtl.RtlFlow`; runs inside the simulator, whose standard input is a socket to the program."""

import json
import os
import socket
from collections import deque
from pathlib import Path

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, RisingEdge

from .frames import Frames, frame

_CHUNK = 1 << 20


class DrivenRtl:
    """Drives a `PortedSystem` cycle by cycle, and holds what it shows against what the golden model showed.

    Ports are held against those of the same cycle, trace words ``lag`` cycles later.

    Parameters
    ----------
    dut : cocotb handle of the system
    watch : names of its ports with trace words
    lag : cycles by which it shows them late

    Attributes
    ----------
    cycle : cycles so far
    """

    def __init__(self, dut, watch: list[str], lag: int):
        self._dut, self._lag = dut, lag
        self._watch = [(port, len(port) // 8) for port in (getattr(dut, name) for name in watch)]
        self._due: deque[tuple[int, bytes]] = deque()
        self._offered = b""
        self.cycle = 0

    async def start(self) -> None:
        """System reset; returns at the beginning of cycle 0."""
        self._dut.stimulus.value = 0
        self._dut.rst.value = 1
        Clock(self._dut.clk, 10, unit="ns", impl="gpi").start()
        for _ in range(3):
            await RisingEdge(self._dut.clk)
        self._dut.rst.value = 0

    async def step(self, stimulus: bytes, words: bytes, ports: bytes) -> dict | None:
        """A cycle under ``stimulus``, and in what the RTL parts from the golden model's trace words and ports."""
        if self.cycle:
            await RisingEdge(self._dut.clk)
        if stimulus != self._offered:
            self._dut.stimulus.value = int.from_bytes(stimulus, "little")
            self._offered = stimulus
        await FallingEdge(self._dut.clk)
        self._due.append((self.cycle, words))
        self.cycle += 1
        if len(self._due) > self._lag:
            cycle, golden = self._due.popleft()
            rtl = b"".join(port.value.to_unsigned().to_bytes(size, "little") for port, size in self._watch)
            if rtl != golden:
                return {"part": "words", "cycle": cycle, "golden": golden, "rtl": rtl}
        shown = self._dut.ports.value.to_unsigned().to_bytes(len(ports), "little")
        if shown != ports:
            return {"part": "ports", "cycle": self.cycle - 1, "golden": ports, "rtl": shown}
        return None


@cocotb.test()
async def beside(dut):
    """Drive and compare what the program sends, until the sides part or the program closes the socket."""
    job = json.loads(Path(os.environ["LETHE_JOB"]).read_text())
    rtl, frames = DrivenRtl(dut, job["watch"], job["lag"]), Frames()
    await rtl.start()
    with socket.socket(fileno=os.dup(0)) as program:
        while data := program.recv(_CHUNK):
            for request in frames.feed(data):
                if "cycles" not in request:
                    program.sendall(frame({"cycle": rtl.cycle}))
                elif parts := await _play(rtl, request):
                    program.sendall(frame(parts))
                    return


async def _play(rtl: DrivenRtl, request: dict) -> dict | None:
    """The cycles of a request, and in what the sides part."""
    count = request["cycles"]
    rows = [request[name] for name in ("stimulus", "words", "ports")]
    sizes = [len(row) // count for row in rows]
    for number in range(count):
        stimulus, words, ports = (
            row[number * size : (number + 1) * size] for row, size in zip(rows, sizes, strict=True)
        )
        if parts := await rtl.step(stimulus, words, ports):
            return parts
    return None
