"""What is on the wire, against `spec.wire`: CRCs, and every kind of message an NI sends."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lethe.spec.events import Event, Kind
from lethe.spec.wire import CRC16, CRC32
from lethe_sim.golden.blocks import Ni
from lethe_sim.golden.link.crc import ONES16, ONES32, update16, update32
from tests.helpers.golden_steps import run, send, sent, worm
from tests.helpers.golden_systems import make


@settings(derandomize=True, deadline=None, max_examples=60)
@given(st.integers(0, (1 << 64) - 1), st.integers(2, 8))
def test_crc_tables(word, count):
    bits = 8 * count
    assert update16(ONES16, np.uint64(word), count) == CRC16.update(CRC16.ones, word, bits)
    if count in (2, 4, 8):
        assert update32(ONES32, np.uint64(word), count) == CRC32.update(CRC32.ones, word, bits)


@pytest.mark.parametrize("flit_bits", [16, 32, 64, 128])
@pytest.mark.parametrize("length", [0, 1, 15, 16, 61])
@pytest.mark.parametrize("mode", [0, 1])
def test_datagrams(flit_bits, length, mode):
    system = make("tree", wire={"flit_bits": flit_bits, "mtu": 64})
    payload = bytes(range(7, 7 + length))
    rows = send(Ni(system, 3), flit_bits, payload, 6, cls=5, mode=mode, expect=9)
    fields = {
        "kind": Kind.BE if mode else Kind.SEND, "destination": 6, "source": 3, "slot": 0, "generation": 0,
        "incarnation": 1, "peer_incarnation": 9, "try": 0, "length": length, "class": 5, "mode": mode, "extension": 0,
    }  # fmt: skip
    assert sent(rows) == [system.format.flits(fields, payload)]


@pytest.mark.parametrize("flit_bits", [16, 32, 64, 128])
def test_replies(flit_bits):
    """A Send is answered by an Ack, an Ack for nothing by a Forget (IMP-22), echoing its fields."""
    system = make("tree", wire={"flit_bits": flit_bits, "try_bits": 2})
    form = system.format
    ni = Ni(system, 3)
    run(ni, 40)
    send_fields = {"kind": Kind.SEND, "destination": 3, "source": 7, "slot": 2, "generation": 77, "incarnation": 4,
                   "try": 2, "length": 5}  # fmt: skip
    rows = run(ni, 30, arrivals=worm(form.flits(send_fields, b"abcde")), incarnation=6)
    ack = {"kind": Kind.ACK, "destination": 7, "source": 3, "slot": 2, "generation": 77, "incarnation": 4,
           "peer_incarnation": 6, "try": 2}  # fmt: skip
    assert sent(rows) == [form.flits(ack)]

    ni = Ni(system, 7)
    run(ni, 40)
    rows = run(ni, 30, arrivals=worm(form.flits(ack)))
    forget = ack | {"kind": Kind.FORGET, "destination": 3, "source": 7}
    assert sent(rows) == [form.flits(forget)]
    assert any(words[2] & 0xFF == Event.ACK_IGNORED for words in rows)
