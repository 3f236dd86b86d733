"""The dissector, in several versions of Lua, and in tshark where there is one, says what the specification says."""

import dataclasses
import importlib
import shutil
import struct
import subprocess
from collections import defaultdict

import pytest

from lethe.spec.capture import HEADER, PACKING, Mark, Passage
from lethe.spec.config import System
from lethe.spec.events import Event, Kind
from lethe.spec.services import Header
from lethe.spec.services.flow import CONTROL_WORDS, Code
from lethe.spec.services.flow import HEADER as FLOW_HEADER
from lethe.spec.services.loop import LOOP
from lethe.spec.services.relay import HEADER as RELAY_HEADER
from lethe.spec.services.relay import Type
from lethe.spec.wire import CRC16
from lethe_sim.wireshark.dissector import dissector, tables_of
from lethe_sim.wireshark.links import links_of
from tests.helpers import ROOT
from tests.helpers.flow_oracle import flow_system
from tests.helpers.link_captures import Seen, packets, taken

MOCK = (ROOT / "tests" / "helpers" / "wireshark.lua").read_text(encoding="utf-8")
#: Wireshark to 4.2 has Lua 5.1 or 5.2, from 4.4 on 5.3 or 5.4.
VERSIONS = ("lua51", "lua52", "lua53", "lua54")
TSHARK = shutil.which("tshark")
needs_tshark = pytest.mark.skipif(TSHARK is None, reason="no tshark; `apt-get install tshark` gives one")
LOAD = {"count": 4, "load": 0.4}
SYSTEMS = {
    "64 bits, control": System.make(
        faults={"loss": 0.08, "flip": 0.002}, ni={"control_classes": 2}, workload=LOAD
    ),
    "16 bits": System.make(
        topology={"kind": "mesh", "columns": 2, "rows": 2}, wire={"flit_bits": 16},
        faults={"loss": 0.05, "flip": 0.002}, workload=LOAD,
    ),
    "128 bits, wide fields": System.make(
        topology={"kind": "wire"},
        wire={"flit_bits": 128, "node_bits": 12, "incarnation_bits": 7, "generation_bits": 15, "mtu": 1000},
        faults={"loss": 0.2}, workload=LOAD,
    ),
    "64 bits, Acks of two flits": System.make(
        topology={"kind": "crossbar", "nodes": 5}, wire={"node_bits": 12, "generation_bits": 16},
        faults={"loss": 0.05, "flip": 0.003}, workload=LOAD,
    ),
}  # fmt: skip


@dataclasses.dataclass
class Lua:
    """The dissector of a system, in one version of Lua."""

    version: str
    system: System
    library: bool = False

    def __post_init__(self):
        module = importlib.import_module(f"lupa.{self.version}")
        self.runtime = module.LuaRuntime(unpack_returned_tuples=True)
        if not self.library:
            self.runtime.execute("bit, bit32 = nil, nil")
        self.runtime.execute(MOCK)
        self.runtime.execute(dissector(self.system))
        self.dissect = self.runtime.globals().dissect
        self.runtime.globals().begin()

    def __call__(self, number: int, data: bytes, *, visited: bool = False):
        """(values by name, columns, bytes passed on to another dissector)."""
        kept, columns, passed_on = self.dissect(number, visited, self.runtime.table_from(list(data)))
        found = defaultdict(list)
        for one in kept.values():
            found[one[1].removeprefix("lethe.")].append(one[2])
        return found, dict(columns.items()), passed_on


def raw(packet: Seen) -> bytes:
    return PACKING.pack(*(packet.header[name] for name, _, _ in HEADER)) + packet.message


def uid_of(fields: dict[str, int]) -> str:
    owner = "destination" if fields["kind"] in (Kind.ACK, Kind.REJECT) else "source"
    return ":".join(str(fields[name]) for name in (owner, "incarnation", "slot", "generation"))


def relations(system: System, seen: list[Seen]) -> list[dict[str, int]]:
    """Of each packet: what it answers, what answers it, what it repeats; frames are numbered from 1."""
    named = []
    for packet in seen:
        sound = packet.whole and packet.good(system)
        fields = packet.fields(system) if sound else {}
        named.append((uid_of(fields), fields["kind"]) if sound else None)
    asked = {Kind.ACK: Kind.SEND, Kind.REJECT: Kind.SEND, Kind.FORGET: Kind.ACK}
    found = [{} for _ in seen]
    for i, one in enumerate(named):
        if one is None:
            continue
        uid, kind = one
        if kind in (Kind.SEND, Kind.ACK):
            same = [j for j in range(i) if named[j] == one and seen[j].header["link"] == seen[i].header["link"]]
            if same:
                found[i]["repeat_of"] = same[0] + 1
        if not seen[i].passed:
            continue
        before = [j for j in range(i) if named[j] == (uid, asked.get(kind)) and seen[j].passed]
        if before:
            found[i]["response_to"] = before[-1] + 1
            found[i]["response_cycles"] = seen[i].header["cycle"] - seen[before[-1]].header["cycle"]
        after = [
            j for j in range(i + 1, len(seen))
            if named[j] and named[j][0] == uid and asked.get(named[j][1]) == kind and seen[j].passed
        ]  # fmt: skip
        if after:
            found[i]["response_in"] = after[0] + 1
    return found


@pytest.fixture(scope="module", params=SYSTEMS, ids=lambda name: name.replace(", ", "-").replace(" ", "-"))
def capture(request):
    system = SYSTEMS[request.param]
    data = taken(system, links_of(system, "nodes"), 1500)[0]
    return system, data, packets(data)


def test_every_packet_is_taken_apart(capture):
    system, _, seen = capture
    lua = Lua("lua52", system)
    kinds, statuses, wanted = set(), set(), relations(system, seen)
    for number, packet in enumerate(seen, 1):
        found, columns, _ = lua(number, raw(packet))
        for name in ("passage", "link", "cycle", "flits", "reached", "flips"):
            assert found[name] == [packet.header[name]], name
        assert [bool(found[mark.name.lower()][0]) for mark in Mark] == [bool(packet.header["marks"] & m) for m in Mark]
        if packet.header["fate"]:
            assert found["fate"] == [packet.header["fate"]]
        if packet.header["fate"] == Event.DROP:
            assert found["drop"] == [packet.header["detail"]] and "DROP" in columns["info"]
        assert ("vanished" in found) == (not packet.passed)
        if packet.header["marks"] & Mark.HEADLESS:
            assert "kind" not in found
            continue
        if packet.whole:
            fields = packet.fields(system)
            assert {name: found[name] for name in fields} == {name: [value] for name, value in fields.items()}
            assert found["uid"] == [uid_of(fields)]
            assert found["crc.status"] == [int(packet.good(system))]
            assert ("bad_crc" in found) is ("[bad CRC]" in columns["info"]) is (not packet.good(system))
            assert columns["src"] == f"node{fields['source']}"
            if fields["kind"] in (Kind.SEND, Kind.BE) and packet.good(system):
                assert found["control"] == [
                    fields["class"] >= (1 << system.format.class_bits) - system.ni.control_classes
                ]
                assert "wrong_length" not in found
            kinds.add(fields["kind"])
            statuses.add(packet.good(system))
        # What is known before is known at once, the answers when the packet is looked at again.
        told = {name: value for name, value in wanted[number - 1].items() if name != "response_in"}
        assert {name: found[name] for name in told} == {name: [value] for name, value in told.items()}
    assert kinds >= {Kind.SEND, Kind.ACK, Kind.FORGET}
    assert statuses == ({True, False} if system.flip_threshold else {True})
    for number, packet in enumerate(seen, 1):
        found, columns, _ = lua(number, raw(packet), visited=True)
        names = ("response_to", "response_in", "repeat_of", "response_cycles")
        assert {n: found[n][0] for n in names if n in found} == wanted[number - 1], columns
    assert sum("response_in" in one for one in wanted) > 10 and any("repeat_of" in one for one in wanted)


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_of_lua_says_the_same(version):
    system = SYSTEMS["64 bits, control"]
    seen = packets(taken(system, links_of(system, "node1"), 600)[0])
    one, other = Lua("lua52", system, library=True), Lua(version, system)
    for number, packet in enumerate(seen, 1):
        assert one(number, raw(packet)) == other(number, raw(packet))


def test_every_constant_is_that_of_the_specification():
    """Two configurations differ in every table that depends on the configuration."""
    one, other = tables_of(SYSTEMS["64 bits, control"]), tables_of(SYSTEMS["16 bits"])
    differ = {name for name in one if one[name] != other[name]}
    assert differ == {
        "FORMAT", "FLIT_BYTES", "ONE_FLIT_CONTROL", "CONTROL_FLITS", "HEADER_FLITS", "CRC_FLITS", "COMMON",
        "SEND_FIELDS", "FIRST_CONTROL_CLASS",
    }  # fmt: skip
    assert one["KINDS"] == {kind.value: kind.name for kind in Kind}
    assert one["COMMON"][0] == {"name": "kind", "offset": 0, "width": 3}


def test_another_format_is_refused():
    system = SYSTEMS["64 bits, control"]
    packet = packets(taken(system, [0], 300)[0])[0]
    other = system.replace(wire={"generation_bits": 11})
    found, columns, _ = Lua("lua54", other)(1, raw(packet))
    assert "other_format" in found and "kind" not in found and columns["info"] == "Another wire format"


def test_a_packet_that_is_cut_short_is_no_error():
    """Captures may be cut to so many bytes a packet."""
    system = SYSTEMS["16 bits"]
    seen = packets(taken(system, links_of(system, "nodes"), 300)[0])
    lua = Lua("lua53", system)
    for size in range(len(raw(seen[0]))):
        found, _, _ = lua(1, raw(seen[0])[:size])
        assert "bad_crc" not in found


def test_a_wrong_length_is_told():
    """A message whose CRC is right, but whose length is that of another."""
    system = SYSTEMS["64 bits, control"]
    packet = next(p for p in packets(taken(system, [0], 300)[0]) if p.whole and p.fields(system)["kind"] == Kind.SEND)
    flits = system.format.flits({**packet.fields(system), "length": 3}, bytes(32))
    told = Seen(packet.header, b"".join(flit.to_bytes(8, "little") for flit in flits))
    found, _, _ = Lua("lua54", system)(1, raw(told))
    assert found["crc.status"] == [1] and "wrong_length" in found


def test_one_flit_is_no_message_where_acks_have_two():
    """Its CRC-16 may be right; the NI takes it for wrong."""
    system = SYSTEMS["64 bits, Acks of two flits"]
    packet = next(p for p in packets(taken(system, [0], 300)[0]) if p.whole)
    body = packet.message[:6]
    told = Seen(packet.header | {"flits": 1}, body + CRC16.of(int.from_bytes(body, "little"), 48).to_bytes(2, "little"))
    found, _, _ = Lua("lua54", system)(1, raw(told))
    assert found["crc.status"] == [0] and not told.good(system)


def test_a_uid_that_comes_round_is_a_new_datagram():
    """After a Forget on the same link a Send of the same UID repeats nothing; before it, it does."""
    system = SYSTEMS["64 bits, control"]
    seen = packets(taken(system, [0], 400)[0])
    send = next(p for p in seen if p.whole and p.fields(system)["kind"] == Kind.SEND)
    forget = {**send.fields(system), "kind": Kind.FORGET}
    flit = system.format.flits({field.name: forget[field.name] for field in system.format.common})
    end = Seen(send.header | {"flits": 1}, b"".join(one.to_bytes(8, "little") for one in flit))
    lua = Lua("lua54", system)
    told = [lua(number, raw(packet))[0] for number, packet in enumerate((send, send, end, send, send), 1)]
    assert [one["repeat_of"] for one in told] == [[], [1], [], [], [4]]


def test_headers_of_services_and_payloads_of_a_class(monkeypatch):
    """What a service puts before a payload is shown, and what follows goes to the dissector of its class."""
    system = System.make(loop={"slots": 2}, workload=LOAD)
    header = Header(fields=(("number", 12), ("more", 1), ("spare", 3), ("stamp", 40)))
    monkeypatch.setitem(vars(LOOP), "headers", lambda system: (header,))
    packet = next(p for p in packets(taken(system, [0], 300)[0]) if p.whole and p.fields(system)["kind"] == Kind.SEND)
    start = system.format.header_flits * system.format.flit_bytes
    message = bytearray(packet.message)
    message[start : start + 7] = struct.pack("<H", 0xABC | 1 << 12) + (0x12_3456_789A).to_bytes(5, "little")
    lua = Lua("lua54", system)
    lua.runtime.globals().other_for(0)
    found, _, passed_on = lua(1, raw(Seen(packet.header, bytes(message))))
    assert [found[f"loop.{name}"] for name in ("number", "more", "stamp")] == [[0xABC], [1], [0x12_3456_789A]]
    assert passed_on == packet.fields(system)["length"] - 7


#: Services whose headers depend on the class of a datagram: {name: (system, cycles)}.
SERVED = {
    "flow": (flow_system(faults={"loss": 0.1}, workload=LOAD), 3000),
    "flow, 128 bits": (flow_system(wire={"flit_bits": 128}, workload=LOAD), 3000),
    "relay": (
        System.make(
            topology={"kind": "crossbar", "nodes": 7}, wire={"mtu": 64}, relay={"slots": 4},
            ni={"control_classes": 2, "control_slots": 4}, workload=LOAD | {"mode": "relay"},
        ),
        1500,
    ),
    "beside relay": (
        System.make(
            topology={"kind": "wire"}, wire={"mtu": 64}, relay={"slots": 4},
            ni={"control_classes": 2, "control_slots": 4}, workload=LOAD,
        ),
        500,
    ),
}  # fmt: skip


def cut(word: int, fields: tuple[tuple[str, int], ...]) -> dict[str, int]:
    """The fields of a word, the lowest first."""
    found = {}
    for name, bits in fields:
        found[name], word = word & ((1 << bits) - 1), word >> bits
    return found


def header_of(system: System, cls: int, payload: bytes) -> tuple[str, dict[str, int], str, int]:
    """Of the header of a service in a payload: its name, its fields, the line that tells of it, and its bytes."""
    word = int.from_bytes(payload, "little")
    highest = (1 << system.format.class_bits) - 1
    if system.flow.ports and cls == highest:
        code = Code(word & 31)
        return "flow.control", {"code": code, **cut(word >> 5, CONTROL_WORDS[code])}, f": {code.name}", 8
    if system.flow.ports:
        found = cut(word, FLOW_HEADER)
        told = f": port {found['sport']} to {found['dport']}, number {found['seq']}"
        return "flow", found, told, max(8, system.format.flit_bytes)
    if cls < highest - 1:
        return "", {}, "", 0
    found = cut(word, RELAY_HEADER)
    told = f": {Type(found['type']).name} of {found['source']} to {found['target']}, uid {found['uid']}"
    return "relay", found, told, 16


@pytest.mark.parametrize("name", SERVED)
def test_headers_of_flow_and_relay_are_taken_apart(name):
    """By the class of the datagram; a control word by its code."""
    system, cycles = SERVED[name]
    seen = packets(taken(system, links_of(system, "nodes"), cycles)[0])
    lua, told, start = Lua("lua54", system), set(), system.format.header_flits * system.format.flit_bytes
    for cls in range(1 << system.format.class_bits):
        lua.runtime.globals().other_for(cls)
    for number, packet in enumerate(seen, 1):
        found, columns, passed_on = lua(number, raw(packet))
        fields = packet.fields(system)
        if fields["kind"] != Kind.SEND:
            assert not any(one.startswith(("flow.", "relay.")) for one in found)
            continue
        payload = packet.message[start : start + fields["length"]]
        service, wanted, line, size = header_of(system, fields["class"], payload)
        got = {one: values for one, values in found.items() if one.startswith(("flow.", "relay."))}
        assert got == {f"{service}.{one}": [value] for one, value in wanted.items()}
        assert f"class {fields['class']}{line}" in columns["info"].removesuffix(" [repeat]")
        assert (passed_on or 0) == fields["length"] - size
        told.add(line.split(" of ")[0].split(" to ")[0])
    expected = {
        "flow": {": PING", ": PONG", ": MAP", ": WINDOW", ": port 0", ": port 1"},
        "flow, 128 bits": {": PING", ": PONG", ": MAP", ": port 0", ": port 1"},
        "relay": {": DATA", ": ACKED", ": ACKACKED"},
        "beside relay": {""},
    }
    assert told >= expected[name]


def test_pieces_of_packets_are_named(tmp_path):
    system = System.make(workload={"kind": "capture", "path": str(ROOT / "examples" / "loopback.pcap")})
    assert [one["name"] for one in tables_of(system)["PAYLOAD_HEADERS"]] == ["piece"]
    assert "piece.packet" not in dissector(System.make())


@needs_tshark
def test_tshark_says_the_same(capture, tmp_path):
    system, data, seen = capture
    (tmp_path / "c.pcapng").write_bytes(data)
    (tmp_path / "c.lua").write_text(dissector(system), encoding="utf-8")
    names = (
        "cycle", "link", "passage", "fate", "kind", "source", "destination", "slot", "generation", "incarnation",
        "uid", "length", "class", "crc.status", "response_to", "response_in", "repeat_of", "response_cycles",
    )  # fmt: skip
    others = ("frame.interface_name", "frame.time_epoch", "_ws.col.Info", "_ws.col.Protocol", "frame.comment")
    done = subprocess.run(
        [
            str(TSHARK), "-2", "-n", "-r", "c.pcapng", "-X", "lua_script:c.lua", "-T", "fields",
            *(part for name in (*(f"lethe.{name}" for name in names), *others) for part in ("-e", name)),
        ],
        cwd=tmp_path, capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    assert "Lua" not in done.stderr, done.stderr
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    assert len(rows) == len(seen)
    for row, packet, wanted in zip(rows, seen, relations(system, seen), strict=True):
        got = dict(zip((*names, *others), row, strict=True))
        header = packet.header
        assert got["_ws.col.Protocol"] == "Lethe" and "Lua Error" not in got["_ws.col.Info"]
        assert got["frame.interface_name"] == system.graph.link_name(header["link"])
        assert got["frame.time_epoch"].split(".")[1] == f"{header['cycle']:09}"
        for name in ("cycle", "link", "passage"):
            assert int(got[name]) == header[name]
        assert got["fate"] == (str(header["fate"]) if header["fate"] else "")
        lost = {Passage.LOST: "lost on link", Passage.DEAD: "is dead"}.get(Passage(header["passage"]), "")
        assert lost in got["frame.comment"]
        if not packet.whole:
            continue
        fields = packet.fields(system)
        told = {name: got[name] for name in fields if name in got}
        assert {name: int(value) for name, value in told.items()} == {name: fields[name] for name in told}
        assert got["uid"] == uid_of(fields) and int(got["crc.status"], 0) == packet.good(system)
        for name in ("response_to", "response_in", "repeat_of", "response_cycles"):
            assert got[name] == str(wanted.get(name, "")), name


@needs_tshark
def test_filters_of_tshark(tmp_path):
    """The filters of the guide find what they are said to find."""
    system = SYSTEMS["64 bits, control"]
    data = taken(system, links_of(system, "nodes"), 1500)[0]
    seen = packets(data)
    (tmp_path / "c.pcapng").write_bytes(data)
    (tmp_path / "c.lua").write_text(dissector(system), encoding="utf-8")

    def count(told: str) -> int:
        command = [str(TSHARK), "-2", "-n", "-r", "c.pcapng", "-X", "lua_script:c.lua", "-Y", told]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=True)
        return len(done.stdout.splitlines())

    whole = [p for p in seen if p.whole]
    assert count('lethe.passage == "LOST"') == sum(not p.passed for p in seen) > 0
    assert count("lethe.bad_crc") == sum(not p.good(system) for p in whole) > 0
    uid = uid_of(whole[0].fields(system))
    assert count(f'lethe.uid == "{uid}"') == sum(uid_of(p.fields(system)) == uid for p in whole) > 2
    assert count("lethe.repeated") == sum("repeat_of" in one for one in relations(system, seen)) > 0


@needs_tshark
@pytest.mark.parametrize(
    ("name", "told"), [("flow", "lethe.flow.control.code == 1"), ("relay", "lethe.relay.uid == 0")]
)
def test_tshark_finds_headers_of_services(tmp_path, name, told):
    system, cycles = SERVED[name]
    data = taken(system, links_of(system, "nodes"), cycles)[0]
    (tmp_path / "c.pcapng").write_bytes(data)
    (tmp_path / "c.lua").write_text(dissector(system), encoding="utf-8")
    command = [str(TSHARK), "-2", "-n", "-r", "c.pcapng", "-X", "lua_script:c.lua", "-Y", told]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=True)
    assert "Lua" not in done.stderr, done.stderr
    start = system.format.header_flits * system.format.flit_bytes
    field, value = told.removeprefix("lethe.").split(" == ")
    wanted = 0
    for packet in packets(data):
        fields = packet.fields(system)
        if fields["kind"] == Kind.SEND:
            service, found, _, _ = header_of(system, fields["class"], packet.message[start:])
            wanted += f"{service}.{field.rpartition('.')[2]}" == field and found[field.rpartition(".")[2]] == int(value)
    assert len(done.stdout.splitlines()) == wanted > 0
