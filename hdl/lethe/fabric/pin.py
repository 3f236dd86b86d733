"""The up-port that a message takes: `lethe.spec.pin` as logic (cycle contract, sections 3.1 and 3.3)."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value

from lethe.layouts import field_of
from lethe.lib.random import scale
from lethe.link.crc import crc_update
from lethe.spec.events import Kind
from lethe.spec.pin import turned
from lethe.spec.wire import CRC16, Wire

from .routes import Rule

__all__ = ["by_path", "check", "climbing", "pinned"]

_FIELDS = ("kind", "destination", "source", "slot")


def check(wire: Wire) -> None:
    """Raises `ValueError` if a router cannot compute the pin from a head."""
    wanted = ("path",) if wire.path_bits else _FIELDS
    for field in wire.common:
        if field.name in wanted and field.offset + field.width > wire.flit_bits:
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


def by_path(wire: Wire, head: Value, level: int, up_ports: int) -> Value:
    """Which of ``up_ports`` the head with this data takes, combinational."""
    path = field_of(next(field for field in wire.common if field.name == "path"), head)
    turn, bits = turned(wire.path_bits, level, up_ports)
    chosen = path.rotate_right(turn)[:bits]
    return chosen if 1 << bits <= up_ports else chosen % up_ports


def climbing(
    m: Module, name: str, wire: Wire, rule: Rule, head: Value, up: Value, salt: Value | None
) -> dict[int, Value]:
    """For each up-port whether the head with this data, which climbs if ``up``, takes it; no ``salt`` with paths."""
    if wire.path_bits:
        port = by_path(wire, head, rule.level, rule.up_ports)
    else:
        assert salt is not None
        port = pinned(m, name, wire, head, salt, rule.level, rule.up_ports)
    first_up = rule.ports - rule.up_ports
    return {first_up + n: up & (port == n) for n in range(rule.up_ports)}
