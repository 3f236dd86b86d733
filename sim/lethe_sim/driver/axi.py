"""The transport over exported RTL, ``lethe verilog --block ni --bus axi``, in a cocotb bench.

Needs cocotbext-axi, whose master, sources and sinks are on the NI's ports.
"""

from typing import Any

from cocotb.triggers import ClockCycles
from cocotbext.axi import (
    AxiLiteBus,
    AxiLiteMaster,
    AxiResp,
    AxiStreamBus,
    AxiStreamFrame,
    AxiStreamSink,
    AxiStreamSource,
)

from lethe.spec.axi import axi_streams
from lethe.spec.config import System
from lethe.spec.events import Cause, Status
from lethe.spec.ports import Record
from lethe.spec.registers import RegisterMap
from lethe.spec.trace import fields

from .transport import Completion, Datagram, Delivery, DriverError, Transport

__all__ = ["AxiTransport"]


class AxiTransport(Transport):
    """An NI in a simulator.

    What it delivers, and completions, are taken as they come.  A datagram that a node reset has cut off is no delivery.

    Parameters
    ----------
    dut : what has the NI's ports
    system : the configuration that the NI was made from
    clock, reset : those of streams and registers
    prefix : begins the names of the ports
    dump : whether the NI has a state dump
    store : whether it stores datagrams whole (``--store-and-forward``), so that their bytes tell their length
    pauses : gives a generator of pauses for each stream and each channel of the registers; None: none

    Raises `DriverError` for an NI with flow, whose streams carry messages between ports.
    """

    def __init__(
        self,
        dut,
        system: System,
        clock,
        reset,
        *,
        prefix: str = "",
        dump: bool = True,
        store: bool = False,
        pauses: Any = None,
    ):
        if system.flow.ports:
            raise DriverError(f"{system.source}: [flow]: the driver sends datagrams, not messages; leave it out")
        self.system, self.map, self._clock = system, RegisterMap(system, dump=dump), clock
        self._axes = {axis.port: axis for axis in axi_streams(system, store=store)}
        self._master: Any = AxiLiteMaster(AxiLiteBus.from_prefix(dut, f"{prefix}s_axil"), clock, reset)
        self._streams: dict[str, Any] = {}
        for port, axis in self._axes.items():
            bus = AxiStreamBus.from_prefix(dut, f"{prefix}{axis.name}")
            bytewise: dict[str, Any] = {} if axis.keep else {"byte_size": 8}
            self._streams[port] = (AxiStreamSource if axis.to_ni else AxiStreamSink)(bus, clock, reset, **bytewise)
        self._delivers = system.top_port.delivers
        if pauses is not None:
            write, read = self._master.write_if, self._master.read_if
            channels = (write.aw_channel, write.w_channel, write.b_channel, read.ar_channel, read.r_channel)
            for stream in (*channels, *self._streams.values()):
                stream.set_pause_generator(pauses())

    async def read(self, address: int) -> tuple[int, bool]:
        got = _whole(await self._master.read(address, 4))
        return int.from_bytes(got.data, "little"), got.resp == AxiResp.OKAY

    async def write(self, address: int, word: int) -> bool:
        return _whole(await self._master.write(address, word.to_bytes(4, "little"))).resp == AxiResp.OKAY

    def put(self, datagram: Datagram) -> None:
        payload = datagram.payload
        port = "send_control" if self.controls(datagram.cls) else "send"
        told = {
            "cls": datagram.cls, "mode": datagram.mode, "length": len(payload), "deadline": datagram.deadline,
            "retry_limit": datagram.retry_limit, "tag": datagram.tag, "expect": datagram.expect,
            "path": datagram.path,
        }  # fmt: skip
        axis = self._axes[port]
        # One of 0 bytes is one beat, whose byte does not matter, or does not count.
        kept = [int(bool(payload))] * max(1, len(payload)) if axis.keep else None
        frame = AxiStreamFrame(payload or b"\0", kept, tdest=datagram.destination, tuser=_packed(axis.user, told))
        self._streams[port].send_nowait(frame)

    def delivery(self) -> Delivery | None:
        for port in self._delivers:
            while not self._streams[port].empty():
                axis, frame = self._axes[port], self._streams[port].recv_nowait(compact=False)
                told = _unpacked(axis.user, _last(frame.tuser))
                if not told["aborted"]:
                    return Delivery(
                        source=_unpacked(axis.id, _last(frame.tid))["source"],
                        payload=bytes(frame.tdata[: told["length"]]),
                        cls=told["cls"],
                        incarnation=told.get("incarnation", 0),
                    )
        return None

    def completion(self) -> Completion | None:
        stream = self._streams["completion"]
        if stream.empty():
            return None
        frame, axis = stream.recv_nowait(compact=False), self._axes["completion"]
        told = _unpacked(axis.data, int.from_bytes(bytes(frame.tdata), "little"))
        told |= _unpacked(axis.user, _last(frame.tuser))
        return Completion(
            tag=told["tag"], status=Status(told["status"]), cause=Cause(told["cause"]),
            destination=told["destination"], slot=told["slot"], generation=told["generation"],
            peer_incarnation=told["peer_incarnation"], incarnation=told["incarnation"],
        )  # fmt: skip

    async def wait(self, cycles: int) -> None:
        await ClockCycles(self._clock, cycles)


def _whole(answer: Any) -> Any:
    """The answer to a transfer; cocotbext-axi has none if a reset came."""
    if answer is None:
        raise DriverError("a reset of the system has cut off a transfer of a register; call open again")
    return answer


def _last(value) -> int:
    """What a frame's last beat has; cocotbext-axi gives a number for each byte, or one for all."""
    return int(value[-1] if isinstance(value, list) else value)


def _packed(record: Record, values: dict[str, int]) -> int:
    return sum(values[name] << bits.shift for name, bits in fields(record).items())


def _unpacked(record: Record, word: int) -> dict[str, int]:
    return {name: bits.of(word) for name, bits in fields(record).items()}
