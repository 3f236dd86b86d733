"""Headers for Verilog and C: widths, layouts, codes and counter addresses of one configuration.

Both hold the same constants under the same names, in capitals, behind ``PREFIX`` and ``LETHE_``.
"""

import enum
import re
import typing
from collections.abc import Iterable, Iterator, Mapping

from .events import ROUTER_COUNTER_STEP, Cause, Drop, Event, Kind, Mode, RouterCounter, Status
from .ports import Record, ni_ports, records
from .registers import Access, RegisterMap
from .wire import UID_GENERATION_SHIFT, UID_INCARNATION_SHIFT, UID_SLOT_SHIFT, UID_SOURCE_SHIFT

if typing.TYPE_CHECKING:
    from .config import System

__all__ = ["c_header", "constants", "verilog_header"]

_CODES = (
    ("Modes of a send record", "MODE", Mode),
    ("Statuses of a completion", "STATUS", Status),
    ("Causes of a completion", "CAUSE", Cause),
    ("Kinds of message on the wire", "KIND", Kind),
    ("Events of the trace words", "EVENT", Event),
    ("Details of the event DROP", "DROP", Drop),
    ("Counters of a router: addresses after its first", "ROUTER_COUNTER", RouterCounter),
)


def constants(
    system: "System",
    *,
    ports: Mapping[str, int] | None = None,
    layouts: Mapping[str, Record] | None = None,
    registers: RegisterMap | None = None,
) -> Iterator[tuple[str, dict[str, int]]]:
    """(title, value by name) of each part of a header.

    ``ports`` are those of the NI's module and their bits (None: those of a host port), ``layouts`` are those of ports
    that hold a record, ``registers`` those of its bus.

    A field at bit s of its record and b bits wide is ``…_SHIFT`` s and ``…_BITS`` b; bit 0 is the lowest.  Counter c of
    an NI alone is at address c; in a system, of NI n at ``n · NI_COUNTER_STEP + c``, of router r at
    ``ROUTER_COUNTER_BASE + r · ROUTER_COUNTER_STEP + c``.  With services there is, for each, where its counters begin
    in an NI; in a system they are at ``SERVICE_COUNTER_BASE + (services · n + level) · SERVICE_COUNTER_STEP + c``.
    """
    form, graph = system.format, system.graph
    yield (
        "Sizes",
        {
            "NODES": graph.nodes,
            "ROUTERS": graph.routers,
            "LINKS": graph.link_count,
            "SLOTS": system.ni.slots,
            "SETS": system.ni.sets,
            "WAYS": system.ni.ways,
            "CONTROL_CLASSES": system.ni.control_classes,
            "MTU": form.mtu,
            "FLIT_BYTES": form.flit_bytes,
            "MAX_PAYLOAD_FLITS": system.slot_flits,
            "MAX_FLITS": form.max_flits,
        },
    )
    yield (
        "Bits of an NI's ports",
        {f"{name}_bits": bits for name, bits in (ni_ports(system) if ports is None else ports).items()},
    )
    for name, record in (layouts or {}).items():
        yield f"Layout of the port {name}", {k: v for k, v in _layout(name, record).items() if k != f"{name}_bits"}
    if registers is not None:
        yield from _registers(registers)
    for name, record in records(system, system.top_port).items():
        yield f"Layout of the record {name}", _layout(f"record_{name}", record)
    yield "Layout of a Send header on the wire", _layout("wire", [(field.name, field.width) for field in form.send])
    yield (
        "Layout of a UID in trace words",
        {
            "UID_GENERATION_SHIFT": UID_GENERATION_SHIFT,
            "UID_SLOT_SHIFT": UID_SLOT_SHIFT,
            "UID_INCARNATION_SHIFT": UID_INCARNATION_SHIFT,
            "UID_SOURCE_SHIFT": UID_SOURCE_SHIFT,
        },
    )
    for title, name, codes in _CODES:
        yield title, _codes(name, codes)
    yield "Counters of an NI: its addresses", _codes("COUNTER", system.counters)
    yield (
        "Counters of a system",
        {
            "NI_COUNTER_STEP": system.counter_step,
            "ROUTER_COUNTER_BASE": graph.nodes * system.counter_step,
            "ROUTER_COUNTER_STEP": ROUTER_COUNTER_STEP,
        },
    )
    if system.services:
        yield from _services(system)


def _registers(registers: RegisterMap) -> Iterator[tuple[str, dict[str, int]]]:
    """Where they are, and their fields; a constant field has its value, too."""
    yield (
        "Registers: their addresses in bytes",
        {f"REGISTER_{register.name}": register.address for register in (*registers.registers, *registers.counters)},
    )
    fields = {}
    for register in registers.registers:
        for field in register.fields:
            name = f"REGISTER_{register.name}_{field.name}"
            fields |= {f"{name}_SHIFT": field.shift, f"{name}_BITS": field.bits}
            if field.access is Access.CONSTANT and field.reset is not None:
                fields[f"{name}_VALUE"] = field.reset
    yield "Fields of registers; of constant ones the value", fields


def _services(system: "System") -> Iterator[tuple[str, dict[str, int]]]:
    """What a stack adds."""
    graph, step = system.graph, system.service_counter_step
    for level, service in enumerate(system.services):
        start = {f"{service.name}_counter_base": system.counter_step + level * step}
        yield (
            f"Counters of a {service.name}: addresses after its first, which is here in an NI",
            start | _codes(f"{service.name}_counter", service.counted(system)),
        )
    yield (
        "Services of a system",
        {
            "SERVICES": len(system.services),
            "HOST_SLOTS": system.top_port.slots,
            "SERVICE_COUNTER_BASE": graph.nodes * system.counter_step + graph.routers * ROUTER_COUNTER_STEP,
            "SERVICE_COUNTER_STEP": step,
        },
    )


def _layout(record: str, fields) -> dict[str, int]:
    found, at = {}, 0
    for name, bits in fields:
        found |= {f"{record}_{name}_shift": at, f"{record}_{name}_bits": bits}
        at += bits
    return found | {f"{record}_bits": at}


def _codes(name: str, codes: Iterable[enum.IntEnum]) -> dict[str, int]:
    return {f"{name}_{code.name}": code.value for code in codes}


def verilog_header(system: "System", *, prefix: str = "", **parts) -> str:
    """A file for ```include``: a macro for each constant (`constants`), once however often it is included."""
    return _header(constants(system, **parts), prefix, guard="VH", hash="`", open="//", close="")


def c_header(system: "System", *, prefix: str = "", **parts) -> str:
    """The same for C and C++: nothing but ``#define``, and so good for assembler too."""
    return _header(constants(system, **parts), prefix, guard="H", hash="#", open="/*", close=" */")


def _header(parts, prefix: str, *, guard: str, hash: str, open: str, close: str) -> str:
    start = re.sub(r"\W", "_", f"{prefix}lethe_").upper()
    lines = [
        f"{hash}ifndef {start}{guard}",
        f"{hash}define {start}{guard}",
    ]
    for title, values in parts:
        lines += ["", f"{open} {title}.{close}"]
        lines += [f"{hash}define {start}{name.upper()} {value}" for name, value in values.items()]
    return "\n".join([*lines, "", f"{hash}endif", ""])
