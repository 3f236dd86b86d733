"""A packet capture as a workload: hosts on nodes, packets cut into datagrams, a capture again at the end."""

from collections.abc import Generator
from dataclasses import dataclass

from lethe.spec.config import System
from lethe_sim.golden.script import Item, Letters, Script

from . import capture_file
from .workload import Verdict, Workload

#: A datagram begins with the packet's number (4 bytes) and the piece's (2, little endian); the last piece is marked.
HEAD = (("packet", 32), ("piece", 15), ("last", 1))
HEAD_BYTES = sum(bits for _, bits in HEAD) // 8
LAST = 1 << HEAD[1][1]


@dataclass(frozen=True, kw_only=True)
class Way:
    """Where a packet goes: from node to node, from a cycle on; ``source`` = ``destination`` on one node."""

    source: int
    destination: int
    cycle: int


class CaptureWorkload(Workload):
    """The packets of a pcap or pcapng file.

    A host is an address: IP, else Ethernet; in order of appearance, host i is on node i, or with more hosts than
    nodes (``hosts`` wrap) on node i mod nodes.  A packet between hosts of one node stays there, or goes by its loop.
    """

    def __init__(self, system: System):
        super().__init__(system)
        if system.host_mtu <= HEAD_BYTES:
            raise self.fail("wire.mtu", f"a piece of a packet needs more than {HEAD_BYTES} bytes", "raise it")
        data = self.read()
        try:
            self.capture = capture_file.parse(data)
        except capture_file.CaptureError as error:
            what, _, cure = str(error).rpartition("; ")
            raise self.broken(what, cure) from None
        self.ends = [packet.hosts for packet in self.capture.packets]
        self.ways = self._ways()
        self._check()

    @property
    def expected(self) -> int:
        return sum(len(self._pieces(number)) for number, way in enumerate(self.ways) if self._goes(way))

    def phases(self) -> Generator[Script, Letters, Verdict]:
        letters = yield self.script()
        return self._judged(letters)

    def script(self) -> Script:
        """What the hosts send: in the order of the capture, whatever the times."""
        load, tags = self.system.workload, 1 << self.system.wire.tag_bits
        order = sorted(range(len(self.ways)), key=lambda number: self.ways[number].cycle)
        return Script.from_items(
            self.system,
            (
                Item(
                    node=self.ways[number].source, destination=self.ways[number].destination, payload=piece,
                    not_before=self.ways[number].cycle if load.timing == "kept" else 0,
                    deadline=load.deadline, retry_limit=load.retry_limit, tag=number % tags,
                )
                for number in order
                if self._goes(self.ways[number])
                for piece in self._pieces(number)
            ),
        )  # fmt: skip

    def _goes(self, way: Way) -> bool:
        """Whether a packet is sent at all."""
        return way.source != way.destination or self.to_itself

    def _ways(self) -> list[Way]:
        packets, nodes = self.capture.packets, self.system.nodes
        hosts: dict[bytes, int] = {}
        for pair in self.ends:
            for host in pair:
                if host:
                    hosts.setdefault(host, len(hosts))
        if len(hosts) > nodes and self.system.workload.hosts == "refuse":
            raise self.fail(
                "workload.hosts",
                f"{self.path()} has {len(hosts)} hosts, and the topology {nodes} nodes",
                "choose a larger one, or hosts = wrap",
            )
        begin = min((packet.time for packet in packets), default=0)
        ways = []
        for packet, (source, destination) in zip(packets, self.ends, strict=True):
            cycle = int((packet.time - begin) / self.system.workload.cycle_ns)
            ways.append(
                Way(source=hosts.get(source, 0) % nodes, destination=hosts.get(destination, 0) % nodes, cycle=cycle)
            )
        return ways

    def _check(self) -> None:
        load, cycles = self.system.workload, self.system.run.cycles
        if not any(self._goes(way) for way in self.ways):
            raise self.broken(
                f"none of its {len(self.ways):,} packets goes from one node to another",
                "capture between several addresses that Ethernet or IP names, or set loop.slots",
            )
        last = max(way.cycle for way in self.ways)
        if load.timing == "kept" and last >= cycles:
            raise self.fail(
                "workload.cycle_ns",
                f"the capture lasts {last:,} cycles, longer than run.cycles ({cycles:,})",
                f"set it to {1.25 * load.cycle_ns * last / cycles:.3g}, raise run.cycles, or compress workload.timing",
            )
        longest = max(self.capture.packets, key=lambda packet: len(packet.data))
        if len(longest.data) > LAST * (self.system.host_mtu - HEAD_BYTES):
            raise self.fail("wire.mtu", f"the packet at byte {longest.offset:,} has too many pieces", "raise it")

    def _pieces(self, number: int) -> list[bytes]:
        """The datagrams of a packet."""
        data, size = self.capture.packets[number].data, self.system.host_mtu - HEAD_BYTES
        last = max(0, -(-len(data) // size) - 1)
        return [
            number.to_bytes(4, "little")
            + (i | (LAST if i == last else 0)).to_bytes(2, "little")
            + data[i * size : (i + 1) * size]
            for i in range(last + 1)
        ]

    def _judged(self, letters: Letters) -> Verdict:
        """Put the packets together and hold each against the one that was sent."""
        packets = self.capture.packets
        pieces: list[dict[int, bytes]] = [{} for _ in packets]
        arrived = [-1] * len(packets)
        doubled = strange = 0
        for i, (node, source, cycle) in enumerate(
            zip(letters.node.tolist(), letters.source.tolist(), letters.cycle.tolist(), strict=True)
        ):
            payload = letters.payload(i)
            number, piece = int.from_bytes(payload[:4], "little"), int.from_bytes(payload[4:6], "little")
            if len(payload) < HEAD_BYTES or number >= len(packets):
                strange += 1
                continue
            way = self.ways[number]
            if (way.source, way.destination) != (source, node) or not self._goes(way):
                strange += 1
                continue
            doubled += piece in pieces[number]
            pieces[number].setdefault(piece, payload[HEAD_BYTES:])
            arrived[number] = max(arrived[number], cycle)
        came: list[tuple[int, int, bytes]] = []
        missing = altered = stayed = 0
        for number, (packet, way) in enumerate(zip(packets, self.ways, strict=True)):
            if not self._goes(way):
                stayed += 1
                cycle = way.cycle if self.system.workload.timing == "kept" else 0
                came.append((cycle, number, packet.data))
                continue
            data = _whole(pieces[number])
            if data is None:
                missing += 1
                continue
            altered += data != packet.data
            came.append((arrived[number], number, data))
        came.sort()
        begin = min(packet.time for packet in packets)
        step = self.system.workload.cycle_ns
        # A packet that grew or shrank has no record that it would fit.
        output = self.capture.written(
            (begin + round(cycle * step), packets[number], data)
            for cycle, number, data in came
            if len(data) == len(packets[number].data)
        )
        if missing or altered or doubled or strange:
            return Verdict(
                good=False, data=output,
                text=f"capture: not received as sent: {missing:,} packets missing, {altered:,} altered; {doubled:,} "
                f"pieces more than once, {strange:,} of no packet or at the wrong node",
            )  # fmt: skip
        size = sum(len(packet.data) for packet in packets)
        return Verdict(
            good=True, data=output,
            text=f"capture: {len(packets):,} packets, {size:,} bytes, received as sent, each once\n"
            f"  {self._overtaken(came):,} came after a later one of the same two hosts; "
            f"{stayed:,} stayed on their node",
        )  # fmt: skip

    def _overtaken(self, came: list[tuple[int, int, bytes]]) -> int:
        """Packets that were whole only after a packet that was sent later from the same host to the same host."""
        latest: dict[tuple[bytes, bytes], int] = {}
        overtaken = 0
        for _, number, _ in came:
            pair = self.ends[number]
            overtaken += number < latest.get(pair, -1)
            latest[pair] = max(number, latest.get(pair, -1))
        return overtaken


def _whole(pieces: dict[int, bytes]) -> bytes | None:
    """The packet of these pieces; None if one is missing."""
    last = [piece for piece in pieces if piece & LAST]
    if len(last) != 1 or set(pieces) != {*range(last[0] & ~LAST), last[0]}:
        return None
    return b"".join(pieces[piece] for piece in sorted(pieces, key=lambda piece: piece & ~LAST))
