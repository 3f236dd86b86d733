"""The RTL as a transport, in lockstep with the golden model: a simulator runs beside the program.

The golden model goes ahead, within one `RtlFlow.advance`.  What its hosts offered is driven into the RTL, and all that
the RTL shows is held against the model's before `advance` returns: what the program is told has happened in both.
"""

import contextlib
import json
import socket
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from lethe.spec.config import System
from lethe_sim.lockstep import divergence, ported, simulators

from .frames import Frames, frame
from .golden import GoldenFlow
from .transport import Happening

__all__ = ["RtlFlow"]

BENCH = "lethe_sim.rds.rtl_bench"
#: Bytes of trace words that are sent at once, about.
_AT_ONCE = 1 << 18
#: Bytes of an answer that are read at once.
_CHUNK = 1 << 16
#: Seconds without an answer after which a simulator is given up.
PATIENCE = 600.0


class RtlProcess:
    """A simulator with a `PortedSystem`, and the other end of `rtl_bench`.

    Parameters
    ----------
    system : the configuration
    directory : the built simulation

    Raises
    ------
    ToolError : the simulator cannot be started, is gone or does not answer; of `send` and `confirm`, too
    """

    def __init__(self, system: System, directory: Path):
        self._name, self._frames = directory.name, Frames()
        job = {"watch": system.layout.watch_ports, "lag": system.layout.lag}
        with contextlib.ExitStack() as stack:
            workspace = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="lethe-")))
            self._log, path = workspace / simulators.LOG, workspace / "job.json"
            path.write_text(json.dumps(job))
            self._connection, theirs = socket.socketpair()
            stack.enter_context(self._connection).settimeout(PATIENCE)
            with theirs:
                stack.enter_context(
                    simulators.beside(
                        directory, ported.TOP, BENCH, workspace, {"LETHE_JOB": str(path)}, stdin=theirs.fileno()
                    )
                )
            self.confirm()
            self._held = stack.pop_all()

    def close(self) -> None:
        """End the simulator."""
        self._held.close()

    def send(self, cycles: int, stimulus: bytes, words: bytes, ports: bytes) -> None:
        """Have so many cycles compared; each of the others has a part of the same size for each cycle."""
        # If the simulator is gone, `confirm` finds out why.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._say({"cycles": cycles, "stimulus": stimulus, "words": words, "ports": ports})

    def confirm(self) -> dict | None:
        """Wait until all that was sent is compared; in what the sides part."""
        answers, data = [], b""
        try:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                self._say({})
            while not answers and (data := self._connection.recv(_CHUNK)):
                answers = self._frames.feed(data)
        except ConnectionResetError:
            data = b""
        except TimeoutError:
            raise self._silent() from None
        if not data:
            raise simulators.ToolError(
                f"the simulator has ended by itself: {simulators.words(self._log, self._name)}; start again"
            )
        return answers[0] if "part" in answers[0] else None

    def _say(self, request: dict) -> None:
        try:
            self._connection.sendall(frame(request))
        except TimeoutError:
            raise self._silent() from None

    def _silent(self) -> simulators.ToolError:
        return simulators.ToolError(f"the simulator has said nothing for {PATIENCE:.0f} s, and is ended; start again")


class RtlFlow(GoldenFlow):
    """A system with flow as RTL under Verilator and as golden model at once, as `transport.FlowTransport`.

    The simulation is built, or taken from the cache.  The simulator ends with `close`, and with this process, however
    that ends.  After an error or an interrupt there is no simulator any more.

    Parameters
    ----------
    system : as of `GoldenFlow`, with RTL
    record : likewise
    verilog : use this text instead of the one the RTL gives, such as RTL changed by hand
    progress : called with what begins, in words

    Raises
    ------
    ValueError : the system has no flow, or there is no RTL of it
    ToolError : a tool is missing or fails; the simulator is gone
    DivergenceError : of `advance` and `close`: RTL and golden model part
    """

    def __init__(
        self,
        system: System,
        *,
        record: bool = False,
        verilog: str | None = None,
        progress: Callable[[str], None] | None = None,
    ):
        if system.golden_only:
            key, value, default = system.golden_only
            raise ValueError(f"{key}: {value} is for the golden model only, there is no RTL of it; set it to {default}")
        simulators.require("verilator")
        say = progress or (lambda what: None)
        say("the golden model is made")
        super().__init__(system, record=record)
        say("the Verilog is made")
        self._shown = ported.ShownPorts(system)
        text = ported.emit(system) if verilog is None else verilog
        say("the simulation is built")
        directory = simulators.build(text, ported.TOP)
        say("the simulation begins")
        self._kept: list[tuple[int, bytes, bytes, bytes]] = []
        self._most = max(1, _AT_ONCE // (8 * system.layout.words))
        self._simulator: RtlProcess | None = RtlProcess(system, directory)

    def advance(self, cycles: int) -> list[Happening]:
        with self._alive():
            told = super().advance(cycles)
            self._confirm()
        return told

    def close(self) -> None:
        """Compare what the RTL has still to show, and end the simulator."""
        if self._simulator is None:
            return
        with self._alive():
            for _ in range(self.system.layout.lag):
                self._run(1, self._words)
            self._confirm()
        self._end()

    # The steps

    def _run(self, cycles: int, words: np.ndarray | None = None) -> None:
        super()._run(cycles, self._words)
        # Of several cycles the model shows its ports in the last one only, but they are those in which nothing happens.
        ports = self._shown.of(self.golden) if cycles == 1 else 0
        self._kept.append(
            (
                cycles,
                self._stimulus.tobytes() * cycles,
                self._words[:cycles].tobytes(),
                ports.to_bytes(-(-self._shown.bits // 8), "little") * cycles,
            )
        )
        if sum(kept[0] for kept in self._kept) >= self._most:
            self._send()

    def _send(self) -> None:
        """Hand over what was kept; the simulator compares it while the model goes on."""
        if self._kept and self._simulator is not None:
            cycles, *parts = zip(*self._kept, strict=True)
            self._kept.clear()
            self._simulator.send(sum(cycles), *(b"".join(part) for part in parts))

    def _confirm(self) -> None:
        """Wait for the simulator, and raise what it found."""
        self._send()
        assert self._simulator is not None
        if parts := self._simulator.confirm():
            raise self._divergence(**parts)

    def _divergence(self, part: str, cycle: int, golden: bytes, rtl: bytes) -> divergence.DivergenceError:
        """The words, or the records at host ports, that differ in a cycle, of which the first is told."""
        layout, found = self.system.layout, []
        if part == "words":
            ours, theirs = np.frombuffer(golden, np.uint64), np.frombuffer(rtl, np.uint64)
            for index in np.flatnonzero(ours != theirs).tolist():
                unit, what = divergence.place(layout, index)
                sides = int(ours[index]), int(theirs[index])
                found.append((unit, what, *sides, *(divergence.describe_word(layout, index, side) for side in sides)))
        else:
            both = int.from_bytes(golden, "little"), int.from_bytes(rtl, "little")
            for node, name, shift, bits in self._shown.spans():
                sides = [side >> shift & (1 << bits) - 1 for side in both]
                if sides[0] != sides[1]:
                    found.append((f"host{node}", name, *sides, *(self._shown.say(name, side) for side in sides)))
        unit, what, _, _, model, shown = found[0]
        more = f", and {len(found) - 1} more" if len(found) > 1 else ""
        return divergence.DivergenceError(
            cycle,
            [divergence.Difference(unit=one[0], what=one[1], golden=one[2], rtl=one[3]) for one in found],
            f"RTL and golden model part in cycle {cycle}: {unit}, {what}: golden {model}, rtl {shown}{more}; "
            "one of them is wrong: report it with configuration and program",
        )

    def _end(self) -> None:
        if self._simulator is not None:
            simulator, self._simulator = self._simulator, None
            simulator.close()

    @contextlib.contextmanager
    def _alive(self) -> Iterator[None]:
        """What ends early ends the simulator, too: the sides would be in different cycles."""
        if self._simulator is None:
            raise simulators.ToolError("the simulator has ended, by `close`, an error or an interrupt; make it anew")
        try:
            yield
        except BaseException:
            self._end()
            raise
