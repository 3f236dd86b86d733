"""A file as a workload: how it is cut, who carries it, and what is said when it does not come together."""

from collections import Counter

import pytest

from lethe.spec.config import System
from lethe_sim.workloads.file import FileWorkload, cut, reassemble
from lethe_sim.workloads.workload import WorkloadError

SYSTEM = System.make(
    "here/file.toml",
    topology={"kind": "crossbar", "nodes": 4},
    workload={"kind": "file", "path": "a.bin"},
    wire={"mtu": 12},
)
DATA = bytes(range(200)) * 3


def delivered(data: bytes = DATA) -> list[tuple[int, int, bytes]]:
    return [(piece.destination, piece.source, piece.payload) for piece in cut(SYSTEM, data)]


def test_pieces_are_numbered_and_short_enough():
    pieces = list(cut(SYSTEM, DATA))
    assert len(pieces) == 75 and all(len(piece.payload) <= 12 for piece in pieces)
    assert [int.from_bytes(piece.payload[:4], "little") for piece in pieces] == list(range(75))
    assert b"".join(piece.payload[4:] for piece in pieces) == DATA
    assert [piece.payload for piece in cut(SYSTEM, b"")] == [bytes(4)]


def test_every_pair_carries_its_share_and_every_node_sends_in_turn():
    pieces = list(cut(SYSTEM, bytes(8 * 24)))
    assert set(Counter((p.source, p.destination) for p in pieces).values()) == {2}
    for start in range(0, 24, 4):
        assert {p.source for p in pieces[start : start + 4]} == {0, 1, 2, 3}
        assert {p.destination for p in pieces[start : start + 4]} == {0, 1, 2, 3}


def test_the_seed_decides_who_carries_what():
    other = SYSTEM.replace(run={"seed": 2})
    assert list(cut(SYSTEM, DATA)) == list(cut(SYSTEM, DATA)) != list(cut(other, DATA))


def test_any_order_comes_together():
    received = reassemble(SYSTEM, DATA, reversed(delivered()))
    assert received.equal and received.data == DATA
    assert received.text().startswith("file: 600 bytes received as sent, SHA-256 ")


@pytest.mark.parametrize(
    ("change", "missing", "doubled", "strange"),
    [
        (lambda d: d.pop(7), 1, 0, 0),
        (lambda d: d.append(d[7]), 0, 1, 0),
        (lambda d: d.__setitem__(7, (*d[7][:2], d[7][2][:-1] + b"\0")), 0, 0, 1),
        (lambda d: d.__setitem__(7, (d[7][1], d[7][0], d[7][2])), 1, 0, 1),
        (lambda d: d.append((0, 1, b"\xff\xff\0\0")), 0, 0, 1),
        (lambda d: d.append((0, 1, b"")), 0, 0, 1),
    ],
    ids=["missing", "doubled", "altered", "elsewhere", "unknown", "empty"],
)
def test_what_went_wrong_is_told(change, missing, doubled, strange):
    deliveries = delivered()
    change(deliveries)
    received = reassemble(SYSTEM, DATA, deliveries)
    found = received.missing, received.doubled, received.strange
    assert found == (missing, doubled, strange)
    assert not received.good
    assert received.text() == (
        f"file: not received as sent: {missing} pieces missing, {doubled} more than once, "
        f"{strange} altered or at the wrong node"
    )


def test_the_file_is_beside_the_configuration(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(WorkloadError, match=r"here/file\.toml: workload\.path: no such file here/a\.bin"):
        FileWorkload(SYSTEM)
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "a.bin").write_bytes(b"abc")
    assert FileWorkload(SYSTEM).data == b"abc"
