"""The ports of an exported NI with its services: every port of the Verilog module, its width, and the records.

`lethe.ni.layouts` builds the RTL's records from the same tables; `header` tells them to Verilog and C.
"""

import typing
from collections.abc import Iterator
from dataclasses import dataclass

from .events import Cause
from .trace import WORD_BITS

if typing.TYPE_CHECKING:
    from .config import System

__all__ = [
    "REFUSAL_BITS",
    "STATUS_BITS",
    "TRIES_BITS",
    "HostPort",
    "Record",
    "cause_bits",
    "counter_bits",
    "deliver_record",
    "ni_ports",
    "records",
    "since_bits",
]

STATUS_BITS, TRIES_BITS, REFUSAL_BITS = 2, 8, 2

#: (name, bits) of each field, the lowest first.
Record = tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class HostPort:
    """What can differ between the host ports of a stack of services.

    Attributes
    ----------
    slots : how many slots `accepted`, `completion` and `cancel` name
    delivers : names of the deliver streams; ``name`` has the records, ``name_data`` the beats
    control : whether there are `send_control` and `send_control_data`
    merge_bits : bits of `merge_word` and `merge_mask`; 0: there is no `merge`
    acceptance : whether there are `arrival`, `refusal` and `delivered`
    sweep : whether there is `sweep`
    ports : ports of flow, each with a bit of `receive_mask`, `readable` and `congested`; 0: there is nothing of flow
    tree : whether there is `tree`, by which relay is told of routes and deaths

    What a service uses by itself, the port above it lacks: ``replace(below, sweep=False)``.
    """

    slots: int
    delivers: tuple[str, ...]
    control: bool = False
    merge_bits: int = 0
    acceptance: bool = False
    sweep: bool = False
    ports: int = 0
    tree: bool = False

    @classmethod
    def of_ni(cls, system: "System") -> "HostPort":
        """The port of an NI: a deliver FIFO for data, and one for each control class."""
        ni = system.ni
        control = (f"deliver_control{i}" for i in range(1, ni.control_classes + 1))
        return cls(
            ni.slots, ("deliver", *control), control=ni.control_slots > 0, merge_bits=ni.merge_bits,
            acceptance=ni.acceptance, sweep=ni.sweep,
        )  # fmt: skip


def cause_bits(system: "System") -> int:
    """Bits of a completion's cause: of the highest that the system's options can bring about."""
    options = {
        Cause.CLASS: system.ni.control_slots > 0,
        Cause.RESTARTED: system.ni.reject or system.loop.slots > 0,
        Cause.SILENT: system.timers.silent_after > 0,
        **dict.fromkeys((Cause.NOT_BOUND, Cause.NOT_CONNECTED, Cause.CONGESTED), system.flow.ports > 0),
        **dict.fromkeys((Cause.BUFFER, Cause.WINDOW), system.flow.ports > 0 or system.relay.slots > 0),
    }
    return max(cause for cause in Cause if options.get(cause, True)).bit_length()


def records(system: "System", port: HostPort | None = None) -> dict[str, Record]:
    """The records at a host port (None: that of the NI), by name.

    What a host may get wrong (destination, mode, length) is wide enough to be seen wrong; everything else has the
    configured width.  ``entry`` is an entry of the receive table, as a state dump shows it.
    """
    form = system.format
    port = port or HostPort.of_ni(system)
    life = (("slot", index_bits(port.slots)), ("generation", form.generation_bits))
    node, length = ("source", form.node_bits), ("length", form.length_bits)
    acceptance = {
        "arrival": (
            ("valid", 1), node, ("incarnation", form.incarnation_bits), ("cls", form.class_bits), length,
            ("try", form.try_bits), ("best_effort", 1), ("word", WORD_BITS),
        ),
    }  # fmt: skip
    flow = {
        "received": (
            node, ("cls", form.class_bits), length, ("sport", 16), ("dport", 16), ("flags", 8), ("seq", 8), ("gap", 1),
        ),
        "set": (("code", 2), ("index", 4), ("value", 16)),
        "answer": (("valid", 1), ("error", 2)),
        "notice": (("peer", form.node_bits), ("up", 1), ("map", port.ports)),
    }  # fmt: skip
    relay = {
        "relayed": (node, ("cls", form.class_bits), length, ("uid", 32)),
        "tree": (("code", 1), ("target", 16), ("hop", 16), ("way", 4), ("depth", 6), ("promoted", 1)),
    }
    ends = (("sport", 16), ("dport", 16), ("flags", 8)) if port.ports else ()
    tag, peer = ("tag", system.wire.tag_bits), ("peer_incarnation", form.incarnation_bits)
    return {
        "send": (
            ("destination", 16),
            ("cls", form.class_bits),
            ("mode", 8),
            ("length", 16),
            ("deadline", system.ni.deadline_bits),
            ("retry_limit", TRIES_BITS),
            tag,
            ("expect", form.incarnation_bits),
            *((("path", form.path_bits),) if form.path_bits else ()),
            *ends,
        ),
        "deliver": (
            ("source", form.node_bits),
            *((("incarnation", form.incarnation_bits),) if system.ni.source_incarnation else ()),
            ("cls", form.class_bits),
            ("length", form.length_bits),
        ),
        "merge": (("valid", 1), *life, ("tries", TRIES_BITS)),
        "beat": (("data", form.flit_bits), ("last", 1)),
        "completion": (*life, ("destination", 16), tag, ("status", STATUS_BITS), ("cause", cause_bits(system)), peer),
        "accepted": (("valid", 1), *life, tag, *((("control", 1),) if port.control else ())),
        "cancel": life,
        "entry": (
            ("valid", 1),
            ("source", form.node_bits),
            ("slot", form.slot_bits),
            ("generation", form.generation_bits),
            ("incarnation", form.incarnation_bits),
        ),
        **(acceptance if port.acceptance else {}),
        **({"sweep": (node,)} if port.sweep else {}),
        **(flow if port.ports else {}),
        **(relay if port.tree else {}),
    }


def deliver_record(port: HostPort, stream: str) -> str:
    """Which of `records` the record of a deliver stream is."""
    if stream == "deliver_relay":
        return "relayed"
    return "received" if port.ports and stream == "deliver" else "deliver"


def index_bits(count: int) -> int:
    """Bits of a number below ``count``, which is at least 2."""
    return (count - 1).bit_length()


def counter_bits(system: "System") -> int:
    """Bits of a counter's address in an NI with its services."""
    services = len(system.services) * system.service_counter_step
    return index_bits(system.counter_step + services if services else system.counter_addresses)


def since_bits(system: "System") -> int:
    """Bits of what a counter can count while all addresses are gone through, one a cycle."""
    return counter_bits(system) + 1


def ni_ports(system: "System", *, watch: bool = True, dump: bool = True) -> dict[str, int]:
    """Bits of every port of the Verilog module of an NI with its services, ``clk`` and ``rst`` included."""
    form, top = system.format, system.top_port
    host = records(system, top)

    def fields(port: str, record: Record) -> Iterator[tuple[str, int]]:
        yield from ((f"{port}_{name}", bits) for name, bits in record)

    def stream(port: str, record: Record) -> Iterator[tuple[str, int]]:
        yield from (*fields(port, record), (f"{port}_valid", 1), (f"{port}_ready", 1))

    flit = (("valid", 1), ("first", 1), ("last", 1), ("data", form.flit_bits))
    ports = {
        "clk": 1, "rst": 1, "node": form.node_bits, "seed": 32, "incarnation": form.incarnation_bits, "link_enable": 1,
        "quiesce": 1, "node_reset": 1, "idle": 1, "ready": 1, "time_base": system.time_bits,
        **dict(fields("link_i", flit)),
        **dict(fields("link_o", flit)),
        **dict(stream("send", host["send"])),
        **dict(stream("send_data", (("payload", form.flit_bits),))),
        **dict(fields("accepted", host["accepted"])),
        **dict(stream("completion", host["completion"])),
        **dict(stream("cancel", host["cancel"])),
    }  # fmt: skip
    if top.control:
        ports |= dict(stream("send_control", host["send"]))
        ports |= dict(stream("send_control_data", (("payload", form.flit_bits),)))
    if top.merge_bits:
        ports |= dict(fields("merge", host["merge"]))
        ports |= {"merge_mask": top.merge_bits, "merge_word": top.merge_bits}
    if top.acceptance:
        ports |= {**dict(fields("arrival", host["arrival"])), "refusal": REFUSAL_BITS, "delivered": 1}
    if top.sweep:
        ports |= dict(stream("sweep", host["sweep"]))
    if top.ports:
        ports |= {**dict(stream("set", host["set"])), **dict(fields("answer", host["answer"]))}
        ports |= {**dict(stream("notice", host["notice"])), "boot": 32}
        ports |= dict.fromkeys(("receive_mask", "readable", "congested"), top.ports)
    if top.tree:
        ports |= dict(stream("tree", host["tree"]))
    if system.services:
        ports["service_reset"] = 1
    for fifo in top.delivers:
        record = host[deliver_record(top, fifo)]
        ports |= {**dict(stream(fifo, record)), **dict(stream(f"{fifo}_data", host["beat"]))}
    if dump:
        ports |= dict(stream("dump", (("payload", index_bits(max(system.ni.slots, system.ni.sets))),)))
        ports |= {"dumped_live": 1, "dumped_generation": form.generation_bits, "dumped_destination": 16}
        for way in range(system.ni.ways):
            ports |= dict(fields(f"dumped_entries_{way}", host["entry"]))
        ports["dumped_valid"] = 1
    if watch:
        ports["watch"] = WORD_BITS * (system.layout.ni_words + system.layout.service_words)
    if system.ni.statistics:
        ports |= {"counter_address": counter_bits(system), "counter_data": 32}
    return ports
