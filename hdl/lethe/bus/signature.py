"""AXI4-Stream and AXI4-Lite as signatures, with AXI's names in lower case (Arm IHI 0051B, IHI 0022H)."""

from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from lethe.spec.axi import AxiStream

__all__ = ["OKAY", "SLVERR", "axi_lite", "axi_stream", "signature_of"]

#: Codes of ``bresp`` and ``rresp``.
OKAY, SLVERR = 0b00, 0b10


def axi_stream(
    data_bits: int,
    *,
    id_bits: int = 0,
    dest_bits: int = 0,
    user_bits: int = 0,
    keep: bool = True,
    last: bool = True,
) -> wiring.Signature:
    """An AXI4-Stream, seen from the transmitter: the side that drives ``tvalid``.

    A transfer happens in each cycle in which ``tvalid`` and ``tready`` are 1.  Once ``tvalid`` is 1, it and what it
    stands for hold until the transfer.

    Parameters
    ----------
    data_bits : bits of ``tdata``, whole bytes; 0: there is none
    id_bits, dest_bits, user_bits : bits of ``tid``, ``tdest``, ``tuser``; 0: there is none
    keep : whether there is ``tkeep``, a bit for each byte of ``tdata``
    last : whether there is ``tlast``

    Raises `ValueError` if ``data_bits`` is not whole bytes, or a width is negative.
    """
    widths = {"tdata": data_bits, "tid": id_bits, "tdest": dest_bits, "tuser": user_bits}
    for name, bits in widths.items():
        if bits < 0:
            raise ValueError(f"bits of {name} must be at least 0, not {bits}")
    if data_bits % 8:
        raise ValueError(f"bits of tdata must be whole bytes, not {data_bits}")
    members = {"tdata": data_bits, "tkeep": data_bits // 8 if keep else 0, "tlast": int(last), **widths}
    return wiring.Signature(
        {name: Out(bits) for name, bits in members.items() if bits} | {"tvalid": Out(1), "tready": In(1)}
    )


def signature_of(axis: AxiStream) -> wiring.Signature:
    """The signature of a stream of `lethe.spec.axi`, seen from the side that drives ``tvalid``."""
    ports = axis.ports
    return axi_stream(
        axis.data_bits,
        id_bits=ports.get("tid", 0),
        dest_bits=ports.get("tdest", 0),
        user_bits=ports.get("tuser", 0),
        keep=axis.keep,
    )


def axi_lite(address_bits: int) -> wiring.Signature:
    """An AXI4-Lite bus of 32 bits, seen from the master.

    Parameters
    ----------
    address_bits : bits of ``awaddr`` and ``araddr``, which count bytes

    Raises `ValueError` if ``address_bits`` is below 2.
    """
    if address_bits < 2:
        raise ValueError(f"address_bits must be at least 2, not {address_bits}")
    return wiring.Signature(
        {
            "awaddr": Out(address_bits),
            "awprot": Out(3),
            "awvalid": Out(1),
            "awready": In(1),
            "wdata": Out(32),
            "wstrb": Out(4),
            "wvalid": Out(1),
            "wready": In(1),
            "bresp": In(2),
            "bvalid": In(1),
            "bready": Out(1),
            "araddr": Out(address_bits),
            "arprot": Out(3),
            "arvalid": Out(1),
            "arready": In(1),
            "rdata": In(32),
            "rresp": In(2),
            "rvalid": In(1),
            "rready": Out(1),
        }
    )
