"""A Wireshark dissector, in Lua, of one configuration's captures: tables from the specification, code from a file."""

import enum
from collections.abc import Iterable
from pathlib import Path

from lethe.spec.capture import HEADER, PACKING, VERSION, Mark, Passage, format_number, payload_headers
from lethe.spec.config import System
from lethe.spec.events import ARRIVALS, DISCARDS, Cause, Drop, Event, Kind, Mode
from lethe.spec.services import Header
from lethe.spec.wire import CRC16, CRC32
from lethe_sim.files import MARK
from lethe_sim.workloads import capture

_CODE = Path(__file__).with_name("dissector.lua")
#: Where the tables stand in the code.
_PLACE = "-- @tables\n"
#: Which kinds carry a datagram; whose header has the UID's node as its destination; and which kinds each kind answers.
_DATA = (Kind.SEND, Kind.BE)
_NAMED_BY_DESTINATION = (Kind.ACK, Kind.REJECT)
_ANSWERS = {Kind.ACK: Kind.SEND, Kind.REJECT: Kind.SEND, Kind.FORGET: Kind.ACK}


def dissector(system: System) -> str:
    """The text of the dissector for captures of ``system``."""
    code = _CODE.read_text(encoding="utf-8")
    before, found, after = code.partition(_PLACE)
    assert found
    tables = "\n".join(f"local {name} = {_lua(value)}" for name, value in tables_of(system).items())
    return f"-- {MARK}, a Wireshark dissector for {system.source}\n{before}{tables}\n{after}"


def tables_of(system: System) -> dict[str, object]:
    """Every constant of the dissector by its name in Lua."""
    wire = system.format
    places, at = [], 0
    for name, code, about in HEADER:
        size = {"B": 1, "H": 2, "I": 4, "Q": 8}[code]
        places.append({"name": name, "at": at, "size": size, "about": about})
        at += size
    assert at == PACKING.size
    headers = [*payload_headers(system)]
    if system.workload.kind == "capture":
        headers.append(("piece", Header(fields=capture.HEAD)))
    return {
        "VERSION": VERSION,
        "FORMAT": format_number(wire),
        "HEADER": places,
        "HEADER_BYTES": at,
        "FLIT_BYTES": wire.flit_bytes,
        "ONE_FLIT_CONTROL": wire.one_flit_control,
        "CONTROL_FLITS": wire.control_flits,
        "HEADER_FLITS": wire.header_flits,
        "CRC_FLITS": wire.crc_flits,
        "MTU": wire.mtu,
        "CRC16": {"width": CRC16.width, "polynomial": CRC16.polynomial},
        "CRC32": {"width": CRC32.width, "polynomial": CRC32.polynomial},
        "COMMON": _fields((field.name, field.width) for field in wire.common),
        "SEND_FIELDS": _fields((field.name, field.width) for field in wire.send),
        "PAYLOAD_HEADERS": [_header(name, header) for name, header in headers],
        "FIRST_CONTROL_CLASS": (1 << wire.class_bits) - system.ni.control_classes,
        "KIND": {kind.name: kind.value for kind in Kind},
        "KINDS": _names(Kind),
        "DATA": {kind.value: True for kind in _DATA},
        "NAMED_BY_DESTINATION": {kind.value: True for kind in _NAMED_BY_DESTINATION},
        "ANSWERS": {answer.value: to.value for answer, to in _ANSWERS.items()},
        "MODES": _names(Mode),
        "PASSAGES": _names(Passage),
        "PASSED": Passage.PASSED.value,
        "MARKS": [{"name": mark.name.lower(), "value": mark.value} for mark in Mark if mark.name],
        "FATES": _names(event for event in Event if event in _FATES),
        "DISCARDS": {event.value: True for event in (*DISCARDS, Event.DROP)},
        "DETAILS": {
            Event.DROP.value: {"name": "drop", "label": "Drop reason", "codes": _names(Drop)},
            Event.GIVE_UP.value: {"name": "cause", "label": "Cause", "codes": _names(Cause)},
            Event.FORWARD.value: {"name": "output", "label": "Output port"},
        },
    }


#: What may become of a message at the end of its link.
_FATES = {*ARRIVALS, *DISCARDS, Event.FORWARD, Event.GIVE_UP}


def _names(codes: Iterable[enum.IntEnum]) -> dict[int, str]:
    return {code.value: code.name for code in codes}


def _fields(fields: Iterable[tuple[str, int]], at: int = 0) -> list[dict[str, object]]:
    """Fields one behind the other, the first at bit ``at``."""
    found: list[dict[str, object]] = []
    for name, width in fields:
        found.append({"name": name, "offset": at, "width": width})
        at += width
    return found


def _header(name: str, header: Header) -> dict[str, object]:
    first, last = header.classes or (0, 255)
    behind = sum(bits for _, bits in header.fields)
    return {
        "name": name,
        "first": first,
        "last": last,
        "bytes": header.bytes,
        "fields": _fields(header.fields),
        "words": {code: _fields(fields, behind) for code, fields in header.words.items()},
        "names": {field: _names(values) for field, values in header.names.items()},
        "told": header.told,
    }


def _lua(value, indent: str = "") -> str:
    """A value as Lua."""
    deeper = indent + "  "
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case str():
            return '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
        case dict():
            entries = [
                f"{key} = {_lua(item, deeper)}" if isinstance(key, str) else f"[{key}] = {_lua(item, deeper)}"
                for key, item in value.items()
            ]
        case _:
            entries = [_lua(item, deeper) for item in value]
    line = "{" + ", ".join(entries) + "}"
    if len(indent + line) <= 100 and "\n" not in line:
        return line
    return "{\n" + "".join(f"{deeper}{entry},\n" for entry in entries) + indent + "}"
