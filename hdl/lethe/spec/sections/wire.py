"""[wire]: the widths of flits and header fields."""

import typing
from dataclasses import dataclass

from lethe.spec.wire import FLIT_WIDTHS, Wire

from .key import Fail, Within, key

if typing.TYPE_CHECKING:
    from lethe.spec.config import System


@dataclass(frozen=True, kw_only=True)
class WireSection:
    about = "Widths of flits and header fields in bits, the same at every node."

    flit_bits: int = key(64, "data bits of a flit: 16, 32, 64 or 128")
    node_bits: int = key(0, "width of a node number; 0: as wide as the topology needs, for example 4 for 16 nodes")
    slot_bits: int = key(0, "width of a slot number; 0: as wide as ni.slots needs, for example 4 for 16 slots")
    generation_bits: int = key(12, "width of a generation, 1 to 20: 12 tell 4,096 datagrams of a slot apart")
    incarnation_bits: int = key(4, "width of an incarnation, 1 to 8: it changes with each reset of a node")
    try_bits: int = key(1, "width of the try that an Ack returns to its sender, 1 to 8")
    class_bits: int = key(3, "width of a datagram's class, 1 to 8: 3 are classes 0 to 7")
    mode_bits: int = key(2, "width of a datagram's mode (0 exactly once, 1 best effort), 1 to 4")
    ext_bits: int = key(2, "width of the extension mask, 1 to 16; no extension is defined")
    path_bits: int = key(0, "tree: width of a path, 1 to 6: the sender chooses the way up; 0: there are no paths")
    mtu: int = key(32, "longest payload in bytes, 1 to 4096")
    tag_bits: int = key(16, "width of the host's tag, 1 to 16: it comes back with the completion, and does not travel")


def check(system: "System", fail: Fail, within: Within) -> None:
    w = system.wire
    if w.flit_bits not in FLIT_WIDTHS:
        fail("wire.flit_bits", f"must be 16, 32, 64 or 128, not {w.flit_bits}", "choose one of these")
    within("wire.node_bits", 0, 16)
    within("wire.slot_bits", 0, 16)
    within("wire.generation_bits", 1, 20)
    within("wire.incarnation_bits", 1, 8)
    within("wire.try_bits", 1, 8)
    within("wire.class_bits", 1, 8)
    within("wire.mode_bits", 1, 4)
    within("wire.ext_bits", 1, 16)
    within("wire.path_bits", 0, 6)
    within("wire.mtu", 1, 4096)
    within("wire.tag_bits", 1, 16)
    form = system.format
    if system.nodes > 1 << form.node_bits:
        fail("wire.node_bits", f"{form.node_bits} bits cannot number {system.nodes} nodes", "leave it at 0")
    if system.ni.slots > 1 << form.slot_bits:
        fail("wire.slot_bits", f"{form.slot_bits} bits cannot number {system.ni.slots} slots", "leave it at 0")
    if 3 + form.node_bits > form.flit_bits:
        fail("wire.node_bits", "kind and destination must fit the first flit", "widen wire.flit_bits")
    if form.path_bits:
        _paths(system, fail)


def _paths(system: "System", fail: Fail) -> None:
    """Where senders choose paths there are some, a router can read them, and an NI bears what they do to the order."""
    end, field = system.format.common_bits, "wire.path_bits"
    if system.graph.kind != "tree":
        fail(field, f"a {system.graph.kind} has one path for a pair", "leave it at 0")
    if system.credits:
        fail(field, "with credits the network chooses the paths", "leave it at 0")
    if system.study.path != "free" or system.study.dilation > 1:
        fail(
            field, "a study of up-ports chooses the paths", "leave it at 0, or leave study.path and study.dilation out"
        )
    if end > system.format.flit_bits:
        wider = next((bits for bits in FLIT_WIDTHS if end <= bits), None)
        fail(field, f"the path must be in the first flit, but it ends at bit {end}", f"set wire.flit_bits = {wider}")
    if system.stores and not system.ni.linger:
        fail("ni.linger", "worms on several paths can overtake each other where they wait", "set ni.linger = -1")


def promises(system: "System", fail: Fail) -> None:
    """T1: an entry must be forgotten long before the same generation of its slot can come again.

    An entry whose Forget was lost is cleared by the answer to its next Ack, so `wrap_guard` longest Ack
    intervals are as many more chances.  It makes the mistake improbable; it does not exclude it.
    """
    needed = system.timers.wrap_guard * system.longest_delays[-1]
    if system.wrap_time >= needed:
        return
    bits = next((b for b in range(system.wire.generation_bits, 21) if system.reuse_time << b >= needed), None)
    wider = f"set wire.generation_bits = {bits}" if bits else "lower timers.backoff_steps"
    fail(
        "wire.generation_bits",
        f"a slot's generation can come again after {system.wrap_time} cycles, "
        f"but {system.timers.wrap_guard} of the longest Ack intervals are {needed}",
        f"{wider}" + (", or lower timers.backoff_steps" if bits else ", or timers.wrap_guard"),
    )


def format(system: "System") -> Wire:
    """The wire format, widths of 0 filled in."""
    w = system.wire
    return Wire(
        flit_bits=w.flit_bits,
        node_bits=w.node_bits or max(1, (system.nodes - 1).bit_length()),
        slot_bits=w.slot_bits or max(1, (system.ni.slots - 1).bit_length()),
        generation_bits=w.generation_bits,
        incarnation_bits=w.incarnation_bits,
        try_bits=w.try_bits,
        class_bits=w.class_bits,
        mode_bits=w.mode_bits,
        ext_bits=w.ext_bits,
        mtu=w.mtu,
        path_bits=w.path_bits,
    )
