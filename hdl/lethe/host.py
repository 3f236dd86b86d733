"""The host port: everything between a NI and its host."""

from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from lethe.spec.config import System
from lethe.spec.ports import deliver_fifos, records

__all__ = ["deliver_streams", "host_records", "host_signature"]


def host_records(system: System) -> dict[str, data.StructLayout]:
    """The layouts of `lethe.spec.ports.records`, by name."""
    return {name: data.StructLayout(dict(fields)) for name, fields in records(system).items()}


def host_signature(system: System) -> wiring.Signature:
    """The host port, seen from the NI; every stream has its own ``ready``.

    Members
    -------
    quiesce : In(1)
        1 stops taking records; what is under way is finished.
    idle, ready : Out(1)
        Nothing is under way or waits for the host; initialisation is over.
    send : In(stream {destination, cls, mode, length, deadline, retry_limit, tag, expect})
        A request; then ``payload_flits(length)`` beats on ``send_data``.
    send_data : In(stream, flit_bits)
    accepted : Out {valid, slot, generation, tag}
        The datagram is fully stored; this pair names it for ``cancel``.  One cycle, whether or not anybody looks.
    completion : Out(stream {slot, generation, destination, tag, status, cause, peer_incarnation})
        How a datagram ended; its slot is free when this is taken.
    cancel : In(stream {slot, generation})
        Ends a datagram that is live; any other is taken without effect.
    deliver, deliver_data : Out(stream)
        {source, cls, length}, then {data, last} beats; for control classes FIFO i also ``deliver_controli`` and
        ``deliver_controli_data``.
    """
    layouts = host_records(system)
    members = {
        "quiesce": In(1),
        "idle": Out(1),
        "ready": Out(1),
        "send": In(stream.Signature(layouts["send"])),
        "send_data": In(stream.Signature(system.format.flit_bits)),
        "accepted": Out(layouts["accepted"]),
        "completion": Out(stream.Signature(layouts["completion"])),
        "cancel": In(stream.Signature(layouts["cancel"])),
    }
    for name in deliver_fifos(system):
        members[name] = Out(stream.Signature(layouts["deliver"]))
        members[f"{name}_data"] = Out(stream.Signature(layouts["beat"]))
    return wiring.Signature(members)


def deliver_streams(system: System, host) -> list:
    """The streams that deliver at a host port: record and data of each deliver FIFO."""
    return [getattr(host, name + suffix) for name in deliver_fifos(system) for suffix in ("", "_data")]
