"""Captures, small enough for a test."""

import io

import dpkt


def frame(source: int, destination: int, size: int = 0) -> bytes:
    """An Ethernet frame with an UDP packet from host to host."""
    data = bytes(i % 251 for i in range(size))
    udp = dpkt.udp.UDP(sport=1, dport=2, data=data, ulen=8 + size)
    packet = dpkt.ip.IP(
        src=bytes([10, 0, 0, source]), dst=bytes([10, 0, 0, destination]), p=17, data=udp, len=28 + size
    )
    return bytes(dpkt.ethernet.Ethernet(src=b"sender", dst=b"getter", data=packet))


FRAMES = [(0.0, frame(1, 2)), (0.000002, frame(2, 3, 300)), (0.00001, frame(1, 2, 5)), (0.0005, frame(4, 1, 77))]


def pcap(frames=FRAMES, **keys) -> bytes:
    return _written(dpkt.pcap.Writer, frames, keys)


def pcapng(frames=FRAMES, **keys) -> bytes:
    return _written(dpkt.pcapng.Writer, frames, keys)


def _written(kind, frames, keys) -> bytes:
    file = io.BytesIO()
    writer = kind(file, **keys)
    for time, data in frames:
        writer.writepkt(data, 1000 + time)
    return file.getvalue()
