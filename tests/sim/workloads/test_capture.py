"""Captures: hosts on nodes, packets as datagrams, and a capture again; broken files are named with their offset."""

import io
import struct
from pathlib import Path

import dpkt
import pytest

from lethe.spec.config import System
from lethe_sim import running
from lethe_sim.workloads import WorkloadError
from lethe_sim.workloads.capture import CaptureWorkload
from lethe_sim.workloads.capture_file import CaptureError, parse
from tests.helpers import ROOT
from tests.helpers.capture_files import FRAMES, frame, pcap, pcapng
from tests.helpers.perfect_network import played

REAL = ROOT / "examples" / "loopback.pcap"
SYSTEM = System.make(
    "c.toml", topology={"kind": "crossbar", "nodes": 4}, workload={"kind": "capture", "path": "c.pcap"},
    run={"cycles": 10**6}, wire={"mtu": 40},
)  # fmt: skip


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def big_endian(frames=FRAMES) -> bytes:
    """As another machine writes it, with nanoseconds."""
    parts = [struct.pack(">IHHIIII", 0xA1B23C4D, 2, 4, 0, 0, 65535, 1)]
    for time, data in frames:
        parts.append(struct.pack(">IIII", 1000, round(time * 1e9), len(data), len(data) + 9) + data)
    return b"".join(parts)


def capture(data: bytes, system: System = SYSTEM, **workload) -> CaptureWorkload:
    Path("c.pcap").write_bytes(data)
    return CaptureWorkload(system.replace(workload={"cycle_ns": 1.0} | workload))


@pytest.mark.parametrize("form", [pcap, pcapng, big_endian])
@pytest.mark.parametrize("timing", ["kept", "compressed"])
def test_what_comes_out_is_the_capture(form, timing):
    workload = capture(form(), timing=timing)
    verdict = played(workload)
    assert verdict.good and verdict.data, verdict.text
    size = sum(len(data) for _, data in FRAMES)
    assert verdict.text.startswith(f"capture: 4 packets, {size} bytes, received as sent, each once")
    assert len(verdict.data) == len(form())
    again = parse(verdict.data)
    assert (again.kind, again.order) == (workload.capture.kind, workload.capture.order)
    assert sorted(packet.data for packet in again.packets) == sorted(data for _, data in FRAMES)


@pytest.mark.parametrize("form", [pcap, pcapng, big_endian])
def test_times_become_cycles(form):
    ways = capture(form(), cycle_ns=4.0).ways
    assert [way.cycle for way in ways] == [0, 500, 2500, 125_000]
    # Hosts 1, 2, 3, 4 are nodes 0, 1, 2, 3.
    assert [(way.source, way.destination) for way in ways] == [(0, 1), (1, 2), (0, 1), (3, 0)]


def test_the_hosts_that_others_wrote():
    """Every reader of captures must read what is written: here dpkt's."""
    verdict = played(capture(pcapng()))
    assert verdict.data
    with io.BytesIO(verdict.data) as file:
        assert sorted(data for _, data in dpkt.pcapng.Reader(file)) == sorted(data for _, data in FRAMES)


def test_more_hosts_than_nodes():
    frames = [(0, frame(host, host + 1)) for host in range(1, 6)] + [(0, frame(1, 5))]
    workload = capture(pcap(frames))
    assert [(way.source, way.destination) for way in workload.ways] == [(0, 1), (1, 2), (2, 3), (3, 0), (0, 1), (0, 0)]
    verdict = played(workload)
    assert verdict.good and verdict.text.endswith("1 stayed on their node") and verdict.data
    assert len(parse(verdict.data).packets) == 6
    looped = capture(pcap(frames), SYSTEM.replace(loop={"slots": 2}))
    assert looped.expected > workload.expected
    verdict = played(looped)
    assert verdict.good and verdict.text.endswith("0 stayed on their node")
    with pytest.raises(
        WorkloadError, match=r"^c.toml: workload.hosts: c.pcap has 6 hosts, and the topology 4 nodes; choose a larger"
    ):
        capture(pcap(frames), hosts="refuse")


def test_packets_without_ip_go_by_ethernet_and_vlans_are_seen_through():
    arp = bytes(dpkt.ethernet.Ethernet(src=b"aaaaaa", dst=b"bbbbbb", type=0x88B5, data=b"x"))
    tagged = frame(1, 2)
    tagged = tagged[:12] + b"\x81\x00\x00\x07" + tagged[12:]
    packets = parse(pcap([(0, arp), (0, tagged), (0, b""), (0, b"short")])).packets
    assert [packet.hosts for packet in packets] == [
        (b"aaaaaa", b"bbbbbb"), (b"\x0a\0\0\x01", b"\x0a\0\0\x02"), (b"", b""), (b"", b"")
    ]  # fmt: skip


@pytest.mark.parametrize(("link", "before"), [(101, 0), (12, 0), (228, 0), (0, 4), (113, 16), (276, 20)])
def test_link_types(link, before):
    start = {113: b"\0\0\0\1\0\6" + bytes(8) + b"\x08\0", 276: b"\x08\0" + bytes(18)}.get(link, bytes(before))
    assert len(start) == before
    packet = parse(pcap([(0, start + frame(7, 9)[14:])], linktype=link)).packets[0]
    assert packet.hosts == (bytes([10, 0, 0, 7]), bytes([10, 0, 0, 9]))


def test_ipv6():
    addresses = bytes(range(16)), bytes(range(16, 32))
    inner = dpkt.ip6.IP6(src=addresses[0], dst=addresses[1], nxt=59)
    for link, before in ((1, bytes(12) + b"\x86\xdd"), (101, b""), (229, b"")):
        assert parse(pcap([(0, before + bytes(inner))], linktype=link)).packets[0].hosts == addresses


def test_garbage_has_no_hosts_or_some():
    for link in (1, 12, 0, 113, 276, 99):
        for data in (b"", b"\xf0", b"\x45", b"\x60" * 41, bytes(60)):
            source, destination = parse(pcap([(0, data)], linktype=link)).packets[0].hosts
            assert len(source) == len(destination) and (source == b"" or len(data) > 12)


def block(kind: int, body: bytes) -> bytes:
    body += bytes(-len(body) % 4)
    return struct.pack("<II", kind, 12 + len(body)) + body + struct.pack("<I", 12 + len(body))


def section(*interfaces: bytes) -> bytes:
    """The start of a pcapng file whose interfaces (Ethernet, 50 bytes of each packet) have these options."""
    head = block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, 4711))
    end = b"\0\0\0\0"
    return head + b"".join(block(1, struct.pack("<HHI", 1, 0, 50) + options + end) for options in interfaces)


def enhanced(tick: int, data: bytes, interface: int = 0) -> bytes:
    return block(6, struct.pack("<IIIII", interface, tick >> 32, tick & 0xFFFF_FFFF, len(data), len(data)) + data)


def test_clocks_of_pcapng():
    """Option 9 is the resolution, option 14 the time of tick 0; microseconds from 0 without them."""
    nano, binary, late = b"\x09\0\x01\0\x09\0\0\0", b"\x09\0\x01\0\x8a\0\0\0", b"\x0e\0\x08\0" + struct.pack("<q", 1000)
    data = section(b"", nano, binary, nano + late)
    for interface, tick in enumerate((1_000_000_000_007, 1_000_000_000_007_000, 1_024_000, 7_000)):
        data += enhanced(tick, frame(1, 2, interface), interface)
    # Two and three: a name resolution block, kept, and statistics, dropped.
    workload = capture(data + block(4, bytes(8)) + block(5, bytes(12)), timing="compressed")
    times = [packet.time for packet in workload.capture.packets]
    assert times == [10**15 + 7000, 10**15 + 7000, 10**12, 10**12 + 7000]
    written = workload.capture.written((packet.time + 2000, packet, packet.data) for packet in workload.capture.packets)
    again = parse(written)
    # 1/1024 s is the best that interface 2 can tell.
    assert [packet.time for packet in again.packets] == [times[0] + 2000, times[1] + 2000, times[2], times[3] + 2000]
    assert len(written) == len(data) + len(block(4, bytes(8)))


def test_other_packets_of_pcapng():
    """Simple packets have no time and are cut at the interface's length; the old packet block has one."""
    simple = block(3, struct.pack("<I", 60) + frame(2, 1, 8)[:50])
    old = block(2, struct.pack("<HHIIII", 0, 0, 0, 5000, 42, 42) + frame(3, 1))
    verdict = played(capture(section(b"") + enhanced(1000, frame(1, 2)) + simple + old, timing="compressed"))
    assert verdict.good and verdict.data
    packets = parse(verdict.data).packets
    assert sorted(packet.data for packet in packets) == sorted([frame(1, 2), frame(2, 1, 8)[:50], frame(3, 1)])
    assert [packet.time for packet in parse(section(b"") + enhanced(9, frame(1, 2)) + simple + old).packets] == [
        9000, 9000, 5_000_000
    ]  # fmt: skip


def test_the_order_within_a_pair_is_told():
    def late(phase, rows):
        # The first packet of host 1 to host 2 comes after its second.
        rows[:] = [
            (node, source, 99 if int.from_bytes(payload[:4], "little") == 0 else cycle, payload)
            for node, source, cycle, payload in rows
        ]

    frames = [(0, frame(1, 2)), (0, frame(1, 2, 5)), (0, frame(2, 1)), (0, frame(1, 2, 7))]
    assert "\n  0 came after" in played(capture(pcap(frames))).text
    verdict = played(capture(pcap(frames)), late)
    assert verdict.good and "\n  1 came after a later one of the same two hosts" in verdict.text


@pytest.mark.parametrize(
    ("meddle", "text"),
    [
        (lambda rows: rows.pop(3), "1 packets missing, 0 altered; 0 pieces more than once, 0 of no packet"),
        (lambda rows: rows.append(rows[3]), "0 packets missing, 0 altered; 1 pieces more than once, 0 of no packet"),
        (
            # The last piece of the last packet becomes one of no packet.
            lambda rows: rows.append((*rows[-1][:3], b"\x04" + rows.pop()[3][1:])),
            "1 packets missing, 0 altered; 0 pieces more than once, 1 of no packet",
        ),
        (lambda rows: rows.append((0, 1, 0, b"\xff" * 9)), "0 altered; 0 pieces more than once, 1 of no packet"),
        (lambda rows: rows.append((0, 1, 0, b"")), "0 altered; 0 pieces more than once, 1 of no packet"),
        (lambda rows: rows.append((2, *rows.pop(0)[1:])), "missing, 0 altered; 0 pieces more than once, 1 of no"),
        (lambda rows: rows.clear(), "4 packets missing"),
    ],
    ids=["lost", "doubled", "number altered", "unknown", "empty", "misrouted", "nothing"],
)
def test_what_went_wrong_is_told(meddle, text):
    verdict = played(capture(pcap()), lambda phase, rows: meddle(rows) and None)
    assert not verdict.good and text in verdict.text, verdict.text


def test_an_altered_byte_is_found():
    def alter(phase, rows):
        node, source, cycle, payload = rows[2]
        rows[2] = node, source, cycle, payload[:-1] + bytes([payload[-1] ^ 1])

    verdict = played(capture(pcap()), alter)
    assert not verdict.good and "1 altered" in verdict.text


def test_a_real_capture_on_the_golden_model(tmp_path):
    system = System.make(
        str(REAL.with_suffix(".toml")), faults={"loss": 0.1}, run={"cycles": 10**6}, wire={"mtu": 64},
        workload={"kind": "capture", "path": REAL.name, "timing": "compressed"},
    )  # fmt: skip
    ran = running.run(system, tmp_path / "c.parquet")
    assert ran.verdict and ran.verdict.good and ran.verdict.data, ran.verdict
    came, sent = parse(ran.verdict.data), parse(REAL.read_bytes())
    assert ran.verdict.text.startswith("capture: 100 packets, ")
    assert sorted(packet.data for packet in came.packets) == sorted(packet.data for packet in sent.packets)
    assert [packet.time for packet in came.packets] == sorted(packet.time for packet in came.packets)


WHOLE, NG = pcap(), pcapng()
FIRST_NG = 28 + 20  # section and interface


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is empty; capture again"),
        (b"\xd4", "is neither pcap nor pcapng"),
        (b"GARBAGE!" * 9, r"is neither pcap nor pcapng \(it begins with 47 41 52 42\); give a capture"),
        (b"\x1f\x8b\x08" + bytes(99), "is compressed; unpack it first"),
        (WHOLE[:20], "ends within the file header at byte 0, 4 bytes short"),
        (WHOLE[:30], "ends within the packet header at byte 24, 10 bytes short; copy it again, or keep its first 24"),
        (WHOLE[:50], "ends within the packet at byte 24, 32 bytes short; copy it again, or keep its first 24 bytes"),
        (WHOLE[:-1], "ends within the packet at byte 503, 1 bytes short"),
        (WHOLE[:24] + b"\xff" * 99, "the packet at byte 24 claims 4,294,967,295 bytes; copy it again"),
        (WHOLE[:28] + b"\xff" * 4 + WHOLE[32:], "the packet at byte 24 has a time of 4,294,967,295 parts"),
        (NG[:10], "the section header at byte 0 has no byte order"),
        (NG[:-3], "ends within the block at byte 580, 3 bytes short"),
        (NG[:FIRST_NG] + b"\xff" * 99, "the block at byte 48 claims a length of 4,294,967,295"),
        (NG[:FIRST_NG] + bytes(99), "the block at byte 48 claims a length of 0"),
        (NG[:28] + NG[FIRST_NG:], "the packet at byte 28 is of interface 0, which has not been described"),
        (NG + NG, r"has a second section at byte 732; give each as a file of its own"),
        (NG[:68] + b"\xff\xff\1\0" + NG[72:], "the packet at byte 48 claims 131,071 bytes in a block of"),
        (NG[: FIRST_NG + 70] + bytes(6) + NG[FIRST_NG + 76 :], "the block at byte 48 gives two lengths"),
        (pcap([]), "none of its 0 packets goes from one node to another; capture between several"),
        (pcap([(0, frame(1, 1))]), "none of its 1 packets goes from one node to another; .*, or set loop.slots"),
    ],
)
def test_broken_captures(data, message):
    with pytest.raises(WorkloadError, match=f"^c.pcap: .*{message}"):
        capture(data)


@pytest.mark.parametrize("form", [pcap, pcapng])
def test_any_damage_is_a_clear_error_or_another_capture(form):
    data = form()
    for at in range(len(data)):
        for value in (0, 0xFF, data[at] ^ 0x80):
            damaged = data[:at] + bytes([value]) + data[at + 1 :]
            try:
                found = parse(damaged)
            except CaptureError as error:
                assert "; " in str(error)
            else:
                assert all(len(packet.hosts) == 2 for packet in found.packets)
                found.written((packet.time + 5, packet, packet.data) for packet in found.packets)
        try:
            parse(data[:at])
        except CaptureError as error:
            assert "; " in str(error)


def test_a_run_that_is_too_short_for_it():
    with pytest.raises(
        WorkloadError, match=r"^c.toml: workload.cycle_ns: the capture lasts 500,000 cycles, longer than"
    ):
        capture(pcap(), SYSTEM.replace(run={"cycles": 10_000}))
    with pytest.raises(
        WorkloadError, match=r"^c.toml: wire.mtu: a piece of a packet needs more than 6 bytes; raise it"
    ):
        capture(pcap(), SYSTEM.replace(wire={"mtu": 6}))


@pytest.mark.parametrize("levels", [1, 10, 248, 3000])
def test_of_packets_within_packets_the_outermost_has_the_hosts(levels):
    inner = dpkt.ip.IP(src=bytes([10, 0, 0, 9]), dst=bytes([10, 0, 0, 8]), p=17, data=b"", len=20)
    data = bytes(inner)
    for _ in range(levels):
        data = bytes(dpkt.ip.IP(src=bytes([10, 0, 0, 1]), dst=bytes([10, 0, 0, 2]), p=4, len=20 + len(data))) + data
    capture = parse(pcap([(0.0, b"sendergetter\x08\x00" + data)], snaplen=1 << 17))
    assert capture.packets[0].hosts == (bytes([10, 0, 0, 1]), bytes([10, 0, 0, 2]))
