"""Capture files, pcap and pcapng: their packets, with offsets, times and hosts, and the way back.

dpkt knows the headers and the protocols.  The framing is read here: dpkt's readers pass over a truncated packet in
silence, and round times to floating point.
"""

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import dpkt
from dpkt import ethernet, ip, ip6, pcap, pcapng, sll, sll2

#: Bytes of a packet in which its outermost addresses are, behind whatever tags.
_HEADERS = 256
#: libpcap's own limit (MAXIMUM_SNAPLEN); beyond it a length is garbage.
LONGEST = 262_144
_ETHERNET, _LINUX, _LINUX2 = 1, 113, 276
#: Link types whose packets are IP behind so many bytes.
_IP_AFTER = {12: 0, 14: 0, 101: 0, 228: 0, 229: 0, 0: 4, 108: 4}
_SECTION, _INTERFACE, _OLD_PACKET, _SIMPLE_PACKET, _STATISTICS, _PACKET = 0x0A0D_0D0A, 1, 2, 3, 5, 6
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"


class CaptureError(ValueError):
    """What is wrong with a capture, and where: ``what; cure``."""


@dataclass(frozen=True, kw_only=True)
class Packet:
    """One packet.

    Attributes
    ----------
    offset : of its record in the file
    time : ns since the epoch
    link : its link type (tcpdump.org/linktypes.html)
    data : the bytes that were captured
    record, start : its record as in the file, and where in it ``data`` is
    interface : the number of its interface
    """

    offset: int
    time: int
    link: int
    data: bytes
    record: bytes
    start: int
    interface: int = 0

    @property
    def hosts(self) -> tuple[bytes, bytes]:
        """Source and destination: IP addresses, else Ethernet's; two empty ones if it has neither."""
        try:
            # No further than addresses are: of packets within packets only the outermost counts.
            return _hosts(self.link, self.data[:_HEADERS])
        except (dpkt.Error, ValueError, LookupError, AttributeError, struct.error):
            return b"", b""


@dataclass(frozen=True, kw_only=True)
class Capture:
    """A whole capture.

    Attributes
    ----------
    kind : ``pcap`` or ``pcapng``
    head : what stands before the packets
    order : of bytes, ``<`` or ``>``
    clocks : of each interface, ticks a second and the time of tick 0 in seconds
    """

    kind: str
    head: bytes
    order: str
    clocks: list[tuple[int, int]]
    packets: list[Packet]

    def written(self, packets: Iterable[tuple[int, Packet, bytes]]) -> bytes:
        """A capture of the same format with (time in ns, packet, its bytes as received)."""
        parts = [self.head]
        for time, packet, data in packets:
            record = bytearray(packet.record)
            record[packet.start : packet.start + len(packet.data)] = data
            ticks, zero = self.clocks[packet.interface]
            if self.kind == "pcap":
                second, rest = divmod(min(time, (1 << 32) * 10**9 - 1), 10**9)
                struct.pack_into(f"{self.order}II", record, 0, second, rest * ticks // 10**9)
            elif struct.unpack_from(f"{self.order}I", record)[0] != _SIMPLE_PACKET:
                tick = min(max(0, (time - zero * 10**9) * ticks // 10**9), (1 << 64) - 1)
                struct.pack_into(f"{self.order}II", record, 12, tick >> 32, tick & 0xFFFF_FFFF)
            parts.append(bytes(record))
        return b"".join(parts)


def parse(data: bytes) -> Capture:
    """The packets of a capture file; raises `CaptureError`."""
    magic = data[:4]
    if not data:
        raise CaptureError("is empty; capture again")
    if magic[:2] == _GZIP or magic == _ZSTD:
        raise CaptureError("is compressed; unpack it first")
    if len(data) >= 4:
        if struct.unpack(">I", magic)[0] in pcap.MAGIC_TO_PKT_HDR:
            return _pcap(data)
        if struct.unpack("<I", magic)[0] == _SECTION:
            return _pcapng(data)
    raise CaptureError(f"is neither pcap nor pcapng (it begins with {magic.hex(' ')}); give a capture of tcpdump's")


def _truncated(what: str, offset: int, missing: int) -> CaptureError:
    return CaptureError(
        f"ends within the {what} at byte {offset:,}, {missing:,} bytes short; copy it again, or keep its first "
        f"{offset:,} bytes"
    )


def _garbage(what: str, offset: int, why: str) -> CaptureError:
    return CaptureError(f"the {what} at byte {offset:,} {why}; copy it again, or keep its first {offset:,} bytes")


def _pcap(data: bytes) -> Capture:
    header: Any = pcap.FileHdr
    if len(data) < header.__hdr_len__:
        raise _truncated("file header", 0, header.__hdr_len__ - len(data))
    magic = struct.unpack(">I", data[:4])[0]
    order = ">" if magic in (pcap.TCPDUMP_MAGIC, pcap.TCPDUMP_MAGIC_NANO, pcap.MODPCAP_MAGIC) else "<"
    head: Any = (pcap.FileHdr if order == ">" else pcap.LEFileHdr)(data[: header.__hdr_len__])
    ticks = 10**9 if magic in (pcap.TCPDUMP_MAGIC_NANO, pcap.PMUDPCT_MAGIC_NANO) else 10**6
    record: Any = pcap.MAGIC_TO_PKT_HDR[magic]
    size, at, packets = record.__hdr_len__, header.__hdr_len__, []
    while at < len(data):
        if len(data) - at < size:
            raise _truncated("packet header", at, size - (len(data) - at))
        packet: Any = record(data[at : at + size])
        if packet.caplen > LONGEST:
            raise _garbage("packet", at, f"claims {packet.caplen:,} bytes")
        if packet.tv_usec >= ticks:
            raise _garbage("packet", at, f"has a time of {packet.tv_usec:,} parts of a second of {ticks:,}")
        end = at + size + packet.caplen
        if end > len(data):
            raise _truncated("packet", at, end - len(data))
        packets.append(
            Packet(
                offset=at, time=packet.tv_sec * 10**9 + packet.tv_usec * 10**9 // ticks,
                # The upper bits tell of a checksum.
                link=head.linktype & 0xFFFF, data=data[at + size : end], record=data[at:end], start=size,
            )
        )  # fmt: skip
        at = end
    return Capture(kind="pcap", head=data[: header.__hdr_len__], order=order, clocks=[(ticks, 0)], packets=packets)


def _pcapng(data: bytes) -> Capture:
    order = {pcapng.BYTE_ORDER_MAGIC_LE: "<", pcapng.BYTE_ORDER_MAGIC: ">"}.get(
        struct.unpack(">I", data[8:12].ljust(4, b"\0"))[0]
    )
    if order is None:
        raise _garbage("section header", 0, "has no byte order")
    little = order == "<"
    packets: list[Packet] = []
    links: list[tuple[int, int]] = []
    clocks: list[tuple[int, int]] = []
    head, at = [], 0
    while at < len(data):
        if len(data) - at < 12:
            raise _truncated("block", at, 12 - (len(data) - at))
        kind, size = struct.unpack_from(f"{order}II", data, at)
        if size < 12 or size % 4 or size > 1 << 26:
            raise _garbage("block", at, f"claims a length of {size:,}")
        if at + size > len(data):
            raise _truncated("block", at, at + size - len(data))
        block = data[at : at + size]
        if struct.unpack_from(f"{order}I", block, size - 4)[0] != size:
            raise _garbage("block", at, "gives two lengths")
        try:
            if kind == _SECTION:
                if at:
                    raise CaptureError(f"has a second section at byte {at:,}; give each as a file of its own")
                # Its length is no longer known.
                head.append(block[:16] + b"\xff" * 8 + block[24:])
            elif kind == _INTERFACE:
                found: Any = (pcapng.InterfaceDescriptionBlockLE if little else pcapng.InterfaceDescriptionBlock)(block)
                links.append((found.linktype, found.snaplen))
                clocks.append(_clock(found, order))
                head.append(block)
            elif kind in (_PACKET, _OLD_PACKET, _SIMPLE_PACKET):
                time = packets[-1].time if packets else 0
                packets.append(_packet(block, kind, order, at, links, clocks, time))
            elif kind != _STATISTICS:  # statistics would no longer be true
                head.append(block)
        except (dpkt.Error, ValueError, IndexError, struct.error) as error:
            if isinstance(error, CaptureError):
                raise
            raise _garbage("block", at, "does not hold what its type says") from None
        at += size
    return Capture(kind="pcapng", head=b"".join(head), order=order, clocks=clocks, packets=packets)


def _clock(interface: Any, order: str) -> tuple[int, int]:
    """Ticks a second, and the time of tick 0 in seconds."""
    ticks, zero = 10**6, 0
    for option in interface.opts:
        if option.code == pcapng.PCAPNG_OPT_IF_TSRESOL:
            power = option.data[0]
            ticks = 2 ** (power & 0x7F) if power & 0x80 else 10**power
        elif option.code == pcapng.PCAPNG_OPT_IF_TSOFFSET:
            zero = struct.unpack(f"{order}q", option.data)[0]
    return ticks, zero


def _packet(block: bytes, kind: int, order: str, at: int, links: list, clocks: list, time: int) -> Packet:
    little = order == "<"
    if kind == _SIMPLE_PACKET:
        interface, start = 0, 12
        length = struct.unpack_from(f"{order}I", block, 8)[0]
        size = min(length, links[0][1] or length) if links else 0
    else:
        cls: Any = {
            (_PACKET, True): pcapng.EnhancedPacketBlockLE, (_PACKET, False): pcapng.EnhancedPacketBlock,
            (_OLD_PACKET, True): pcapng.PacketBlockLE, (_OLD_PACKET, False): pcapng.PacketBlock,
        }[kind, little]  # fmt: skip
        found = cls(block)
        interface, start, size = found.iface_id, 28, found.caplen
        if interface < len(clocks):
            ticks, zero = clocks[interface]
            time = zero * 10**9 + (found.ts_high << 32 | found.ts_low) * 10**9 // ticks
    if interface >= len(links):
        raise _garbage("packet", at, f"is of interface {interface}, which has not been described")
    if size > min(LONGEST, len(block) - start - 4):
        raise _garbage("packet", at, f"claims {size:,} bytes in a block of {len(block):,}")
    return Packet(
        offset=at, time=time, link=links[interface][0], data=block[start : start + size], record=block, start=start,
        interface=interface,
    )  # fmt: skip


def _hosts(link: int, data: bytes) -> tuple[bytes, bytes]:
    if link == _ETHERNET:
        frame = ethernet.Ethernet(data)
        inner = frame.data
        return _addresses(inner if isinstance(inner, ip.IP | ip6.IP6) else frame)
    if link == _LINUX:
        inner = sll.SLL(data).data
    elif link == _LINUX2:
        inner = sll2.SLL2(data).data
    else:
        data = data[_IP_AFTER[link] :] if link in _IP_AFTER else b""
        inner = {4: ip.IP, 6: ip6.IP6}[data[0] >> 4](data)
    return _addresses(inner)


def _addresses(header: Any) -> tuple[bytes, bytes]:
    return header.src, header.dst
