"""The AXI4-Streams of an NI's host port: what each of them carries, and in which of its bits.

`lethe.bus.streams` builds the RTL from these tables; `header` tells them to Verilog and C, `docs/use/axi.md` to
readers.
"""

import typing
from dataclasses import dataclass

from .ports import Record, deliver_record, ni_ports, records
from .registers import ADDRESS_BITS

if typing.TYPE_CHECKING:
    from .config import System

__all__ = ["AxiStream", "axi_layouts", "axi_ports", "axi_streams"]

#: ``tdata`` of completions is a multiple of this.
WORD_BITS = 32


@dataclass(frozen=True, kw_only=True)
class AxiStream:
    """One AXI4-Stream.

    Attributes
    ----------
    name : as its ports begin: ``s_axis_send``
    port : the stream of the host port that it stands for: ``send``
    data_bits : bits of ``tdata``
    keep : whether there is ``tkeep``
    data, id, dest, user : the fields of ``tdata``, ``tid``, ``tdest`` and ``tuser``; ``tdata`` without fields has the
        bytes of a datagram, lowest first
    """

    name: str
    port: str
    data_bits: int
    keep: bool
    data: Record = ()
    id: Record = ()
    dest: Record = ()
    user: Record = ()

    @property
    def to_ni(self) -> bool:
        return self.name.startswith("s_")

    @property
    def fields(self) -> dict[str, Record]:
        """The records, by the name of their port, lowest field first."""
        found = {"tdata": self.data, "tid": self.id, "tdest": self.dest, "tuser": self.user}
        return {name: record for name, record in found.items() if record}

    @property
    def ports(self) -> dict[str, int]:
        """Bits of every port, by its AXI name."""
        return {
            "tdata": self.data_bits,
            **({"tkeep": self.data_bits // 8} if self.keep else {}),
            "tlast": 1,
            **{name: bits_of(record) for name, record in self.fields.items() if name != "tdata"},
            "tvalid": 1,
            "tready": 1,
        }


def bits_of(record: Record) -> int:
    """Bits of a record."""
    return sum(bits for _, bits in record)


def axi_streams(system: "System", *, store: bool = False) -> tuple[AxiStream, ...]:
    """The streams of the host port at the top: those that send, those that deliver, completions.

    With ``store`` a datagram's length is that of its bytes; else ``tuser`` tells it.  A message of flow has its
    destination port in ``tdest``.
    """
    found = records(system, system.top_port)
    flit_bits = system.format.flit_bits
    told = tuple(field for field in found["send"] if field[0] != "destination" and not (store and field[0] == "length"))
    sends = ["send", *(["send_control"] if system.top_port.control else [])]
    delivered = {port: found[deliver_record(system.top_port, port)] for port in system.top_port.delivers}
    completion = found["completion"]
    return (
        *(
            AxiStream(
                name=f"s_axis_{port}",
                port=port,
                data_bits=flit_bits,
                keep=store,
                dest=tuple(field for field in found["send"] if field[0] == "destination"),
                user=told,
            )
            for port in sends
        ),
        *(
            AxiStream(
                name=f"m_axis_{port}",
                port=port,
                data_bits=flit_bits,
                keep=True,
                id=tuple(field for field in record if field[0] == "source"),
                dest=tuple(field for field in record if field[0] == "dport"),
                user=(("aborted", 1), *(field for field in record if field[0] not in ("source", "dport"))),
            )
            for port, record in delivered.items()
        ),
        AxiStream(
            name="m_axis_completion",
            port="completion",
            data_bits=-(-bits_of(completion) // WORD_BITS) * WORD_BITS,
            keep=False,
            data=completion,
            user=(("incarnation", system.format.incarnation_bits),),
        ),
    )


#: Ports of an NI's module that its registers stand for.
_REGISTERED = (
    "incarnation", "link_enable", "node_reset", "quiesce", "idle", "ready", "time_base", "accepted_", "cancel_", "dump",
    "counter_", "service_reset", "boot", "receive_mask", "readable", "congested", "set_", "answer_", "notice_", "tree_",
)  # fmt: skip
#: Bits of the ports of AXI4-Lite.
_LITE = {
    "awaddr": ADDRESS_BITS, "awprot": 3, "awvalid": 1, "awready": 1, "wdata": 32, "wstrb": 4, "wvalid": 1, "wready": 1,
    "bresp": 2, "bvalid": 1, "bready": 1, "araddr": ADDRESS_BITS, "arprot": 3, "arvalid": 1, "arready": 1, "rdata": 32,
    "rresp": 2, "rvalid": 1, "rready": 1,
}  # fmt: skip


def axi_ports(
    system: "System",
    *,
    registers: bool = True,
    store: bool = False,
    host_clock: bool = False,
    watch: bool = True,
    dump: bool = True,
) -> dict[str, int]:
    """Bits of every port of the Verilog module of an NI on AXI, clocks and resets included.

    Without ``registers`` only datagrams and completions are on AXI.
    """
    streams = axi_streams(system, store=store)
    gone = tuple(f"{axis.port}_" for axis in streams) + (_REGISTERED if registers else ())
    kept = {name: bits for name, bits in ni_ports(system, watch=watch, dump=dump).items() if not name.startswith(gone)}
    told = {f"{axis.name}_{port}": bits for axis in streams for port, bits in axis.ports.items()}
    if registers:
        told |= {"irq": 1, **{f"s_axil_{name}": bits for name, bits in _LITE.items()}}
    else:
        told |= {"deliver_waiting": 1, "completion_waiting": 1}
    return {**kept, **({"host_clk": 1, "host_rst": 1} if host_clock else {}), **told, "malformed": 1}


def axi_layouts(system: "System", *, store: bool = False) -> dict[str, Record]:
    """The fields of ``tdata``, ``tid``, ``tdest`` and ``tuser`` of every stream, by the name of the port."""
    return {
        f"{axis.name}_{port}": record
        for axis in axi_streams(system, store=store)
        for port, record in axis.fields.items()
    }
