"""The up-port to which a message is pinned: `lethe.spec.pin` as logic (cycle contract, section 3.1)."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value

from lethe.layouts import field_of
from lethe.lib.random import scale
from lethe.link.crc import crc_update
from lethe.spec.events import Kind
from lethe.spec.wire import CRC16, Wire

__all__ = ["check", "pinned"]

_FIELDS = ("kind", "destination", "source", "slot")


def check(wire: Wire) -> None:
    """Raises `ValueError` if a router cannot compute the pin from a head."""
    for field in wire.common:
        if field.name in _FIELDS and field.offset + field.width > wire.flit_bits:
            raise ValueError(
                f"routers that pin paths need the header's {field.name} in the first flit: it ends at bit "
                f"{field.offset + field.width} and flit_bits is {wire.flit_bits}"
            )


def pinned(m: Module, name: str, wire: Wire, head: Value, salt: Value, level: int, up_ports: int) -> Value:
    """Which of ``up_ports`` the head with this data takes, combinational; ``name`` is that of its signals."""
    kind, to, source, slot = (field_of(field, head) for wanted in _FIELDS for field in wire.common
                              if field.name == wanted)  # fmt: skip
    is_ack = kind == Kind.ACK
    ends = Mux(is_ack, Cat(to, source), Cat(source, to))
    key = Signal(2 * wire.node_bits + wire.slot_bits, name=f"{name}_key")
    hashed = Signal(CRC16.width, name=f"{name}_hash")
    m.d.comb += [key.eq(Cat(ends, slot)), hashed.eq(crc_update(CRC16, salt, key))]
    return scale(hashed.rotate_right(5 * level % CRC16.width)[:8], up_ports)
