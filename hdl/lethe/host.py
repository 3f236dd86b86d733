"""The host port: everything between an NI and its host."""

from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from lethe.spec.config import System
from lethe.spec.ports import REFUSAL_BITS, HostPort, deliver_record, records

__all__ = ["deliver_streams", "host_records", "host_signature"]


def host_records(system: System, port: HostPort | None = None) -> dict[str, data.StructLayout]:
    """The layouts of `lethe.spec.ports.records`, by name."""
    return {name: data.StructLayout(dict(fields)) for name, fields in records(system, port).items()}


def host_signature(system: System, port: HostPort | None = None) -> wiring.Signature:
    """A host port, seen from below; every stream has its own ``ready``.

    Parameters
    ----------
    port : which of a stack; None: the NI's

    Members
    -------
    quiesce : In(1)
        1 stops taking records; what is under way is finished.
    idle, ready : Out(1)
        Nothing is under way or waits for the host; initialisation is over.
    send : In(stream {destination, cls, mode, length, deadline, retry_limit, tag, expect})
        A request, with ``wire.path_bits`` also {path}; then ``payload_flits(length)`` beats on ``send_data``.
    send_data : In(stream, flit_bits)
    send_control, send_control_data : In(stream), with ``port.control``
        As ``send`` and ``send_data``, for control classes; in a cycle in which these take something those do not.
    accepted : Out {valid, slot, generation, tag}
        The datagram is fully stored; this pair names it for ``cancel``.  One cycle, whether or not anybody looks.  With
        ``port.control`` also {control}: it came by ``send_control``.
    merge : Out {valid, slot, generation, tries}, with ``port.merge_bits``
        A Send or BE was granted the link, and is perhaps sent.
    merge_word, merge_mask : In(merge_bits), with ``port.merge_bits``
        Three cycles later: the bits of ``merge_word`` that are 1 in ``merge_mask`` go out in the payload's place.
    arrival : Out {valid, source, incarnation, cls, length, try, best_effort, word}, with ``port.acceptance``
        A data message has arrived, not yet checked: its header, and the first 64 bits of its payload.
    refusal : In(2), with ``port.acceptance``
        Five cycles later: why it is not to be delivered, as its number in `spec.events.ACCEPTANCE`; 0: it may be.
    delivered : Out(1), with ``port.acceptance``
        In that same cycle: it is delivered; this follows ``refusal`` without a register.
    completion : Out(stream {slot, generation, destination, tag, status, cause, peer_incarnation})
        How a datagram ended; its slot is free when this is taken.
    cancel : In(stream {slot, generation})
        Ends a datagram that is live; any other is taken without effect.
    sweep : In(stream {source}), with ``port.sweep``
        Erases what the receive table has of a source, an entry or a set every five cycles; taken when all is done.
    receive_mask : In(ports), with ``port.ports``
        The ports from which the host takes messages; ``send`` records have {sport, dport, flags} more, and ``deliver``
        ones are {source, cls, length, sport, dport, flags, seq, gap}.
    readable, congested : Out(ports), with ``port.ports``
        The ports in which messages wait; those that are congested.
    set : In(stream {code, index, value}), with ``port.ports``
        Binds and unbinds ports, and sets their limits; in the cycle in which it is taken ``answer`` {valid, error} says
        how it went.
    notice : Out(stream {peer, up, map}), with ``port.ports``
        A peer came up, or is no more, or its congested ports are others.
    tree : In(stream {code, target, hop, way, depth, promoted}), with ``port.tree``
        Code 0 writes a route of the overlay, code 1 puts the written ones in use and tells of a death.
    deliver, deliver_data : Out(stream)
        {source, cls, length}, then {data, last} beats; for control classes FIFO i also ``deliver_controli`` and
        ``deliver_controli_data``.  With ``ni.source_incarnation`` also {incarnation}, of the source.
        ``deliver_relay``: {source, cls, length, uid}.
    """
    port = port or HostPort.of_ni(system)
    layouts = host_records(system, port)
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
    if port.control:
        members |= {"send_control": members["send"], "send_control_data": members["send_data"]}
    if bits := port.merge_bits:
        members |= {"merge": Out(layouts["merge"]), "merge_word": In(bits), "merge_mask": In(bits)}
    if port.acceptance:
        members |= {"arrival": Out(layouts["arrival"]), "refusal": In(REFUSAL_BITS), "delivered": Out(1)}
    if port.sweep:
        members["sweep"] = In(stream.Signature(layouts["sweep"]))
    if port.ports:
        members |= {
            "receive_mask": In(port.ports),
            "readable": Out(port.ports),
            "congested": Out(port.ports),
            "set": In(stream.Signature(layouts["set"])),
            "answer": Out(layouts["answer"]),
            "notice": Out(stream.Signature(layouts["notice"])),
        }
    if port.tree:
        members["tree"] = In(stream.Signature(layouts["tree"]))
    for name in port.delivers:
        members[name] = Out(stream.Signature(layouts[deliver_record(port, name)]))
        members[f"{name}_data"] = Out(stream.Signature(layouts["beat"]))
    return wiring.Signature(members)


def deliver_streams(port: HostPort, host) -> list:
    """The streams that deliver at a host port: record and data of each deliver FIFO."""
    return [getattr(host, name + suffix) for name in port.delivers for suffix in ("", "_data")]
