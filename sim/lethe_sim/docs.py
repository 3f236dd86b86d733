"""The tables in docs/ that follow from `lethe.spec`, written between markers: ``python -m lethe_sim.docs``.

A region begins with ``<!-- generated: NAME -->`` and ends with ``<!-- end: NAME -->``; everything between is
replaced.  With ``--check`` nothing is written and stale pages are exit code 1.
"""

import argparse
import dataclasses
import enum
import inspect
import re
import sys
import types
import typing
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from lethe.spec import config, events, stages, trace
from lethe.spec.axi import axi_streams
from lethe.spec.config import System
from lethe.spec.presets import PRESETS
from lethe.spec.random import advance, seed_for
from lethe.spec.registers import Interrupt, Register, RegisterField, RegisterMap
from lethe.spec.sections import SECTIONS, flow, relay
from lethe.spec.services import SERVICES
from lethe.spec.wire import CRC16, CRC32, FLIT_WIDTHS, Wire, pack_uid

NODE_COUNTS = (16, 256, 4096, 65536)
_REGION = re.compile(r"(<!-- generated: (\S+) -->\n).*?(<!-- end: \2 -->)", re.DOTALL)


def budget_wire(flit_bits: int, nodes: int) -> Wire:
    """The default widths with 20 bits of slot and generation, which fill a 64-bit flit at 256 nodes."""
    return dataclasses.replace(
        System.make().format, flit_bits=flit_bits, node_bits=(nodes - 1).bit_length(), slot_bits=8, generation_bits=12
    )


def table(heads: tuple[str, ...], rows: Iterator[tuple]) -> str:
    """A Markdown table; columns whose every cell is a number are set right."""
    cells = [tuple(str(cell).replace("|", "\\|") for cell in row) for row in rows]
    numeric = [all(re.fullmatch(r"[\d, %.–^-]*", row[i]) for row in cells) for i in range(len(heads))]
    rule = tuple("---:" if right else "---" for right in numeric)
    return "\n".join("| " + " | ".join(row) + " |" for row in (heads, rule, *cells)) + "\n"


def budget() -> str:
    def rows():
        for flit_bits in FLIT_WIDTHS:
            for nodes in NODE_COUNTS:
                wire = budget_wire(flit_bits, nodes)
                if 3 + wire.node_bits > flit_bits:
                    yield flit_bits, f"{nodes:,}", wire.common_bits, "–", "–", wire.send_bits, "–", "–", "–"
                    continue
                check = "16" if wire.one_flit_control else "32"
                spare = wire.control_flits * flit_bits - wire.common_bits - int(check)
                flits = wire.send_flits(32)
                yield (
                    flit_bits, f"{nodes:,}", wire.common_bits, wire.control_flits, f"{check}, {spare}",
                    wire.send_bits, wire.header_flits, flits, f"{32 * 8 / (flits * flit_bits):.0%}",
                )  # fmt: skip

    return table(
        (
            "flit bits", "nodes", "Ack header bits", "Ack flits", "CRC, spare bits", "Send header bits",
            "Send header flits", "flits of a 32-byte Send", "of that payload",
        ),
        rows(),
    )  # fmt: skip


_MEANINGS = {
    "kind": ("3", "message kind, below"),
    "destination": ("node_bits", "node the message goes to; routers read it from the first flit"),
    "source": ("node_bits", "node the message comes from"),
    "slot": ("slot_bits", "UID: slot of the send table of the datagram's sender"),
    "generation": ("generation_bits", "UID: counts the uses of that slot"),
    "incarnation": ("incarnation_bits", "UID: incarnation of the datagram's sender"),
    "peer_incarnation": ("incarnation_bits", "of the receiver: as a Send wants it (0: any), as an Ack says it"),
    "try": ("try_bits", "low bits of the number of repeats; an Ack and its Forget echo it"),
    "length": ("bit length of mtu", "payload bytes"),
    "class": ("class_bits", "the host's; the highest may have a deliver FIFO of their own"),
    "mode": ("mode_bits", "0 exactly once (Send), 1 best effort (BE)"),
    "extension": ("ext_bits", "extensions present; none is defined, so it must be 0"),
}  # fmt: skip


def header() -> str:
    form = System.make().format

    def rows():
        for field in form.send:
            width, meaning = _MEANINGS[field.name]
            first = field.name in {f.name for f in form.common}
            yield f"`{field.name}`", "all" if first else "Send, BE", f"{width}", field.offset, field.width, meaning

    return table(("field", "in", "width from", "default: first bit", "default: bits", "meaning"), rows())


def comments(cls: type[enum.IntEnum]) -> dict[str, str]:
    """The comment behind each member in the source of an enumeration."""
    found = re.findall(r"^ +([A-Z_]+) = \d+(?: +# (.*))?$", inspect.getsource(cls), re.MULTILINE)
    return dict(found)


def enumeration(cls: type[enum.IntEnum], *, code: str = "code") -> str:
    about = comments(cls)
    rows = ((int(member), f"`{member.name}`", about[member.name]) for member in cls)
    return table((code, "name", "meaning"), rows)


def event_table() -> str:
    about = comments(events.Event)

    def rows():
        for event in events.Event:
            if event is not events.Event.NOTHING:
                yield int(event), f"`{event.name}`", _seen_at(event), about[event.name]

    return table(("code", "event", "seen at", "meaning"), rows())


def _seen_at(event: events.Event) -> str:
    facts = events.EVENTS[event]
    lanes = {events.Unit.NI: ("NI", events.LANE_NAMES)}
    lanes |= {service.unit: (service.name, service.lanes) for service in SERVICES}

    def place(unit: events.Unit) -> str:
        if unit not in lanes or facts.lane is None:
            return unit.name.lower()
        name, names = lanes[unit]
        return f"{name} lane {names[facts.lane]}"

    return ", ".join(map(place, facts.units))


def counters() -> str:
    def rows():
        for counter in events.Counter:
            event, drop = events.COUNTED.get(counter, (None, events.Drop.NONE))
            what = "replies that found their queue full" if event is None else f"`{event.name}`"
            what += f" with detail `{drop.name}`" if drop else ""
            if counter in events.OPTIONAL_COUNTERS:
                what += f" (with `ni.{events.OPTIONAL_COUNTERS[counter]}`)"
            yield int(counter), f"`{counter.name}`", what

    return table(("address", "counter", "counts"), rows())


def router_counters() -> str:
    def rows():
        for counter in events.RouterCounter:
            yield int(counter), f"`{counter.name}`", f"`{events.ROUTER_COUNTED[counter].name}`"

    return table(("address", "counter", "counts"), rows())


def service_counters() -> str:
    def rows():
        for service in SERVICES:
            for event, facts in events.EVENTS.items():
                for counter in facts.counters:
                    if isinstance(counter, service.counters):
                        yield service.name, int(counter), f"`{counter.name}`", f"`{event.name}`"
            # Those of no event have a comment.
            for name, about in comments(service.counters).items():
                if about:
                    yield service.name, int(service.counters[name]), f"`{name}`", about

    return table(("service", "address", "counter", "counts"), rows())


def service_flags() -> str:
    """The bits of the word of flags of each service."""

    def rows():
        for service in SERVICES:
            yield service.name, ", ".join(service.lanes), ", ".join(f"`{name}`" for name in service.flag_bits)

    return table(("service", "lanes", "flags, from bit 0 on"), rows())


def columns() -> str:
    return table(
        ("column", "type", "may be null", "meaning"),
        ((f"`{n}`", kind, "yes" if nullable else "no", about) for n, kind, nullable, about in events.TRACE_COLUMNS),
    )


def keys() -> str:
    """Every key of a configuration, with its default."""
    parts = []
    for name, section in SECTIONS.items():
        fields = dataclasses.fields(section)
        head = f"### [{name}]\n\n{section.about}\n\n"
        parts.append(head + table(("key", "default", "meaning"), map(_key, fields)))
        for field in fields:
            if isinstance(field.type, types.GenericAlias):
                (element, _) = typing.get_args(field.type)
                title = f"### [[{name}.{field.name}]]\n\n"
                parts.append(title + table(("key", "default", "meaning"), map(_key, dataclasses.fields(element))))
    return "\n".join(parts)


def presets() -> str:
    """Every preset with the keys that it sets."""

    def rows():
        for name, preset in PRESETS.items():
            keys = [
                f"`{section}.{key} = {config.literal(value)}`"
                for section, table in preset.tables.items()
                for key, value in table.items()
            ]
            yield f"`{name}`", preset.about, ", ".join(keys) or "nothing"

    return table(("preset", "for", "sets"), rows())


def _key(field: dataclasses.Field) -> tuple[str, str, str]:
    default = "none" if isinstance(field.default, tuple) else f"`{config.literal(field.default)}`"
    return f"`{field.name}`", default, field.metadata["about"]


def metrics() -> str:
    from lethe_sim.metrics import METRICS

    return table(("metric", "unit", "meaning"), ((f"`{name}`", unit, about) for name, (unit, about) in METRICS.items()))


def findings() -> str:
    """What the audit can find."""
    from lethe_sim.ledger.findings import FINDINGS

    return table(("finding", "meaning"), ((f"`{name}`", about) for name, about in FINDINGS.items()))


def sweep_tables() -> str:
    """The columns of each table of a sweep."""
    from lethe_sim.sweep.store import SCHEMAS, TABLES

    return "\n".join(
        f"### {name}.parquet\n\n"
        + table(
            ("column", "type", "may be null", "meaning"),
            (
                (f"`{column}`", kind, "yes" if SCHEMAS[name].field(column).nullable else "no", about)
                for column, kind, about in columns
            ),
        )
        for name, columns in TABLES.items()
    )


def stimulus() -> str:
    """The words that drive a node's host side."""

    def fields(*named: tuple[str, int]) -> str:
        return ", ".join(f"`{name}` {width}" for name, width in named)

    def of_set(name: str) -> str:
        return name if name == "notice_stall" else f"set.{name}"

    bits = fields(*((name, 1) for name in trace.STIMULUS_BITS))
    stalls = f"; from bit {trace.STREAMS_STALL.shift} on " + fields(("streams_stall", trace.STREAMS_STALL.bits))
    rows = (
        (trace.STIMULUS_FLAGS, bits + stalls),
        (trace.STIMULUS_RECORD_WORD, fields(*trace.STIMULUS_RECORD)),
        (trace.STIMULUS_LIMITS_WORD, fields(*trace.STIMULUS_LIMITS)),
        (f"{trace.STIMULUS_BEAT}, {trace.STIMULUS_BEAT + 1}", "the data beat, low half first"),
        (trace.STIMULUS_CANCEL_WORD, fields(*trace.STIMULUS_CANCEL)),
        (f"{trace.CONTROL_RECORD_WORD}, {trace.CONTROL_LIMITS_WORD}", "with control slots: as words 1 and 2"),
        (f"{trace.CONTROL_BEAT}, {trace.CONTROL_BEAT_HIGH}", "with control slots: the beat, low half first"),
        ("next two", "with a merge port: `merge_word`, `merge_mask`"),
        ("next", "with an acceptance port: " + fields(*trace.STIMULUS_REFUSAL)),
        ("next", "with a sweep: " + fields(*((f"sweep.{name}", bits) for name, bits in trace.STIMULUS_SWEEP))),
        ("next", "with flow: " + fields(*trace.STIMULUS_PORTS)),
        ("next", "with flow: " + fields(*((of_set(name), bits) for name, bits in trace.STIMULUS_SET))),
        ("last", "with relay: " + fields(*((f"tree.{name}", bits) for name, bits in trace.STIMULUS_TREE))),
    )
    return table(("word", "fields and their bits"), iter(rows))


def pipeline() -> str:
    """The constants of `spec.stages`, which have their meaning in a comment behind them."""
    found = re.findall(r"^([A-Z_]+) = (\d+)  # (.*)$", inspect.getsource(stages), re.MULTILINE)
    return table(("name", "cycles", "meaning"), ((f"`{name}`", number, about) for name, number, about in found))


def registers() -> str:
    """Every register of the default configuration but its counters."""
    return _register_table((register, register.fields) for register in RegisterMap(System.make()).registers)


def flow_registers() -> str:
    """Registers and fields that the default configuration has only with flow."""
    return _register_table(_registers_beside(System.make(ni=flow.OF_NI, flow={"ports": 16})))


def relay_registers() -> str:
    """Registers and fields that the default configuration has only with relay."""
    return _register_table(_registers_beside(System.make(ni=relay.OF_NI, relay={"slots": 16})))


def _registers_beside(system: System) -> Iterator[tuple[Register, list[RegisterField]]]:
    """Registers, each with its fields, that the default configuration has not."""
    plain = RegisterMap(System.make())
    for register in RegisterMap(system).registers:
        known = {field.name for field in plain[register.name].fields} if register.name in plain else set()
        if fields := [field for field in register.fields if field.name not in known]:
            yield register, fields


def _register_table(found: Iterable[tuple[Register, Sequence[RegisterField]]]) -> str:
    def rows():
        for register, fields in found:
            yield f"0x{register.address:03X}", f"**{register.name}**", "", "", "", register.about
            for field in fields:
                high = field.shift + field.bits - 1
                bits = f"{high}" if field.bits == 1 else f"{high}–{field.shift}"
                reset = "–" if field.reset is None else f"0x{field.reset:X}" if field.reset > 9 else field.reset
                yield "", f"`{field.name}`", bits, field.access.value, reset, field.about

    return table(("address", "register, field", "bits", "access", "after `rst`", "meaning"), rows())


def interrupts() -> str:
    """The bits of the registers of interrupts."""

    def rows():
        for interrupt, about in comments(Interrupt).items():
            kind, _, meaning = about.partition(": ")
            yield int(Interrupt[interrupt]), f"`{interrupt}`", kind, meaning

    return table(("bit", "interrupt", "kind", "cause"), rows())


def vectors() -> str:
    """Results of the functions that the cycle contract defines in words."""
    system = System.make()
    gaps = system.gaps
    uid = pack_uid(1, 1, 2, 3)
    kind = events.Kind.ACK
    ack = {"kind": kind, "destination": 1, "source": 2, "slot": 3, "generation": 4, "incarnation": 1}
    wide = dataclasses.replace(system.format, flit_bits=16)
    rows = (
        ("draw from 1; from that", f"0x{advance(1):08X}; 0x{advance(advance(1)):08X}"),
        ("seed_for(1, 1, 0); seed_for(1, 3, 5)", f"0x{seed_for(1, 1, 0):08X}; 0x{seed_for(1, 3, 5):08X}"),
        ("CRC-16 of the 48 bits 0x123456789ABC", f"0x{CRC16.of(0x1234_5678_9ABC, 48):04X}"),
        ("CRC-32C of the 64 bits 0x0123456789ABCDEF", f"0x{CRC32.of(0x0123_4567_89AB_CDEF, 64):08X}"),
        (
            "default configuration: Ack to node 1 from node 2, slot 3, generation 4, incarnation 1, rest 0",
            f"0x{system.format.flits(ack)[0]:016X}",
        ),
        ("the same with 16-bit flits", " ".join(f"{flit:04X}" for flit in wide.flits(ack))),
        ("default configuration: max_flits, `delays`", f"{system.format.max_flits}, {list(system.delays)}"),
        ("default configuration: timer_depth, bits of `time`", f"{system.timer_depth}, {system.time_bits}"),
        ("default configuration: gaps 0, 1, 127, 255", f"{gaps[0]}, {gaps[1]}, {gaps[127]}, {gaps[255]}"),
        (
            f"event_hash, cycle 100, unit 1, lane 2, word 0x200003001, uid 0x{uid:X}",
            f"0x{trace.event_hash(100, 1, 2, 0x2_0000_3001, uid):016X}",
        ),
    )
    return table(("of", "result"), iter(rows))


_STREAM_FIELDS = {
    "destination": "node that the datagram is for",
    "cls": "class",
    "mode": "0 exactly once, 1 best effort",
    "length": "payload bytes",
    "deadline": "cycles of the time base until the datagram is given up; 0: never",
    "retry_limit": "repeats after which it is given up; 0: never",
    "tag": "the host's own; the completion has it",
    "expect": "incarnation that the receiver must have; 0: any",
    "source": "node that the datagram is from",
    "aborted": "1 in a beat that ends a datagram before its end; else 0",
    "slot": "slot of the datagram",
    "generation": "generation of the slot",
    "status": "how the datagram ended",
    "cause": "why",
    "peer_incarnation": "incarnation of the receiver; 0: not known",
    "incarnation": "own incarnation in which the completion left the NI",
}


def axi_fields() -> str:
    """Where the fields of every stream are, in the default configuration."""

    def rows():
        for axis in axi_streams(System.make()):
            for port, record in axis.fields.items():
                at = 0
                for name, bits in record:
                    yield f"`{axis.name}_{port}`", f"`{name}`", at, bits, _STREAM_FIELDS[name]
                    at += bits

    return table(("port", "field", "first bit", "bits", "meaning"), rows())


REGIONS = {
    "budget": budget,
    "header": header,
    "kinds": lambda: enumeration(events.Kind),
    "statuses": lambda: enumeration(events.Status),
    "causes": lambda: enumeration(events.Cause),
    "drops": lambda: enumeration(events.Drop),
    "events": event_table,
    "counters": counters,
    "router-counters": router_counters,
    "service-counters": service_counters,
    "service-flags": service_flags,
    "columns": columns,
    "keys": keys,
    "presets": presets,
    "metrics": metrics,
    "findings": findings,
    "tables": sweep_tables,
    "stages": pipeline,
    "stimulus": stimulus,
    "vectors": vectors,
    "axi-fields": axi_fields,
    "registers": registers,
    "registers-flow": flow_registers,
    "registers-relay": relay_registers,
    "interrupts": interrupts,
}


def refreshed(text: str, source: str = "(page)") -> str:
    """A page with its generated regions as they should be; raises `ValueError` for a region that is none."""

    def region(found: re.Match) -> str:
        if found[2] not in REGIONS:
            raise ValueError(f"{source}: no generated region is called {found[2]}; known are {', '.join(REGIONS)}")
        return f"{found[1]}\n{REGIONS[found[2]]()}\n{found[3]}"

    return _REGION.sub(region, text)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m lethe_sim.docs", description="Refresh the tables in docs/.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 if a page is stale")
    parser.add_argument("directory", nargs="?", default="docs", help="(default: docs)")
    chosen = parser.parse_args(arguments)
    stale = []
    for page in sorted(Path(chosen.directory).glob("**/*.md")):
        text = page.read_text(encoding="utf-8")
        fresh = refreshed(text, str(page))
        if fresh != text:
            stale.append(page)
            if not chosen.check:
                page.write_text(fresh, encoding="utf-8")
    for page in stale:
        print(f"{page}: {'is stale; run python -m lethe_sim.docs' if chosen.check else 'written'}")
    return 1 if chosen.check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
