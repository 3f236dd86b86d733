"""[flow]: ports, order, credits and congestion, as a service between NI and host."""

import typing
from dataclasses import dataclass

from . import relay
from .key import Fail, Within, key, refuse_settings
from .workload import RELAYED

if typing.TYPE_CHECKING:
    from lethe.spec.config import System

#: Unfinished numbers that a stream may have, and numbers that its receiver can hold.
WINDOW = 16
#: Numbers of a stream, and how many of them, beyond two windows, may go by while a message is still in the network.
NUMBERS = 256
#: Keys of ``[ni]`` that flow needs; from 2 control slots and 1 control class on, other numbers do as well.
OF_NI = {
    "control_classes": 1, "control_slots": 4, "merge_bits": 16, "reject": True, "source_incarnation": True,
    "acceptance": True, "sweep": True,
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class FlowSection:
    about = "A service between NI and host: messages to ports, in order, with credits and congestion."

    ports: int = key(0, "ports of a node, 2, 4, 8 or 16; a port's index is its number modulo this; 0: no flow")
    cells: int = key(32, "cells of each port: messages that can wait in it; with half unread it is congested")
    in_order: int = key(8, "cells of each port that only the message whose turn it is may take, at least 1")
    bound: bool = key(True, "bind every port after a reset, to the number that is its index")
    receive_limit: int = key(0, "bytes that wait in a port from which on it is congested; 0: half of its cells")
    send_limit: int = key(0, "bytes a socket may have under way; 0: flow.quota of the longest messages")
    quota: int = key(0, "messages a socket may have under way; 0: a quarter of the slots for data")
    watch: int = key(4096, "cycles after which a peer that accepts nothing is asked whether it lives")
    tries: int = key(6, "retry limit of control messages")
    paths: int = key(1, "paths that streams to a peer are spread over, 1, 2, 4 or 8, if the peer has as many")


def check(system: "System", fail: Fail, within: Within) -> None:
    flow, ni = system.flow, system.ni
    if not flow.ports:
        return
    if flow.ports not in (2, 4, 8, 16):
        fail("flow.ports", f"must be 2, 4, 8 or 16, not {flow.ports}", "choose one of these, or 0 for no flow")
    within("flow.cells", 2, 4096)
    within("flow.in_order", 1, flow.cells - 1)
    within("flow.tries", 1, 255)
    within("flow.watch", 64, 1 << 24)
    within("flow.quota", 0, ni.slots)
    _paths(system, fail)
    for name in ("receive_limit", "send_limit"):
        within(f"flow.{name}", 0, 65535 * 16)
        if getattr(flow, name) % 16:
            fail(f"flow.{name}", f"must be a multiple of 16, not {getattr(flow, name)}", "round it")
    least = {"control_classes": 1, "control_slots": 2}
    given = {name: getattr(ni, name) for name in OF_NI}
    wanted = {
        name: value
        for name, value in OF_NI.items()
        if (given[name] < least[name] if name in least else given[name] != value)
    }
    refuse_settings(wanted, "flow needs it", "flow.ports", fail)
    if system.loop.slots:
        fail("loop.slots", "flow has its own way to the own node", "set it to 0, or flow.ports to 0")
    if system.wire.mtu < header_bytes(system) + 1:
        fail("wire.mtu", f"leaves no byte beside flow's header of {header_bytes(system)}", "raise it")
    if system.format.class_bits < 1:
        fail("wire.class_bits", "must be at least 1 with flow", "raise it")


def _paths(system: "System", fail: Fail) -> None:
    paths = system.flow.paths
    if paths not in (1, 2, 4, 8):
        fail("flow.paths", f"must be 1, 2, 4 or 8, not {paths}", "choose one of these")
    if paths > 1 << system.format.path_bits:
        fail(
            "flow.paths", f"{paths} paths need {(paths - 1).bit_length()} bits in the header",
            f"set wire.path_bits = {(paths - 1).bit_length()}, or flow.paths to 1",
        )  # fmt: skip
    if paths > 1 and not system.ni.linger:
        fail("ni.linger", "messages on several paths can overtake each other", "set ni.linger = -1")


def promises(system: "System", fail: Fail) -> None:
    """Numbers of 8 bits are not misread: no message lives while a stream goes on by more than 224 numbers."""
    if not system.flow.ports:
        return
    most = (NUMBERS - 2 * WINDOW) * system.format.send_flits(header_bytes(system))
    if system.packet_life >= most:
        fail(
            "flow.ports",
            f"a message can live for {system.packet_life:,} cycles, and in {most:,} cycles "
            f"{NUMBERS - 2 * WINDOW} numbers of a stream can go by",
            "lower router.queue or router.max_wait",
        )


def header_beats(system: "System") -> int:
    """Beats of the header before a message."""
    return -(-64 // system.format.flit_bits)


def header_bytes(system: "System") -> int:
    """Payload bytes that its header takes."""
    return header_bytes_of(system.format.flit_bits)


def header_bytes_of(flit_bits: int) -> int:
    """The same for flits of so many bits."""
    return max(8, flit_bits // 8)


def mtu(system: "System") -> int:
    """The longest message in bytes."""
    return system.wire.mtu - header_bytes(system)


def host_mtu(system: "System") -> int:
    """The longest payload in bytes that the hosts of ``[workload]`` send: with flow or by relay the longest message."""
    if system.workload.mode == RELAYED:
        return relay.mtu(system)
    return mtu(system) if system.flow.ports else system.wire.mtu


def quota(system: "System") -> int:
    """Messages that a socket may have under way."""
    return system.flow.quota or max(1, (system.ni.slots - system.ni.control_slots) // 4)


def _sixteens(number: int) -> int:
    return max(16, number // 16 * 16)


def receive_limit(system: "System") -> int:
    """Bytes that wait in a port from which on it is congested."""
    return system.flow.receive_limit or _sixteens(system.flow.cells * mtu(system) // 2)


def send_limit(system: "System") -> int:
    """Bytes that a socket may have under way."""
    return system.flow.send_limit or max(_sixteens(quota(system) * mtu(system)), -(-mtu(system) // 16) * 16)


def silence(system: "System") -> int:
    """Cycles after which nothing is left in the network of what a node launched before."""
    return system.packet_life + system.format.max_flits + 8
