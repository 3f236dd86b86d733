"""The wire format: fields tile the header, flits say what was asked, one-flit control where it fits."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lethe.spec.config import System
from lethe.spec.events import Kind
from lethe.spec.random import advance, scale, seed_for
from lethe.spec.trace import event_hash, mix64
from lethe.spec.wire import CRC16, CRC32, FLIT_WIDTHS, Wire, pack_uid, unpack_uid

wires = st.builds(
    Wire,
    flit_bits=st.sampled_from(FLIT_WIDTHS), node_bits=st.integers(1, 16), slot_bits=st.integers(1, 16),
    generation_bits=st.integers(1, 20), incarnation_bits=st.integers(1, 8), try_bits=st.integers(1, 8),
    class_bits=st.integers(1, 8), mode_bits=st.integers(1, 4), ext_bits=st.integers(1, 16),
    mtu=st.integers(1, 200),
)  # fmt: skip
quick = settings(max_examples=150, deadline=None, derandomize=True)


@quick
@given(wires)
def test_fields_tile_the_header(wire):
    for fields, bits in ((wire.common, wire.common_bits), (wire.send, wire.send_bits)):
        assert [f.offset for f in fields] == [sum(f.width for f in fields[:i]) for i in range(len(fields))]
        assert sum(f.width for f in fields) == bits
    assert wire.send[: len(wire.common)] == wire.common


@quick
@given(wires, st.data())
def test_a_message_says_what_was_asked_and_its_crc_is_good(wire, data):
    """IMP-14, IMP-15, IMP-16: what `Wire.flits` packs can be read back by the tables."""
    kind = data.draw(st.sampled_from([Kind.SEND, Kind.ACK, Kind.FORGET, Kind.BE]))
    control = kind in (Kind.ACK, Kind.FORGET)
    layout = wire.common if control else wire.send
    fields = {f.name: data.draw(st.integers(0, (1 << f.width) - 1), f.name) for f in layout} | {"kind": kind}
    payload = b"" if control else data.draw(st.binary(max_size=wire.mtu))
    if not control:
        fields["length"] = len(payload)
    flits = wire.flits(fields, payload)
    assert all(0 <= flit < 1 << wire.flit_bits for flit in flits)
    assert len(flits) == (wire.control_flits if control else wire.send_flits(len(payload))) <= wire.max_flits
    bits = sum(flit << i * wire.flit_bits for i, flit in enumerate(flits))
    assert {f.name: bits >> f.offset & (1 << f.width) - 1 for f in layout} == fields
    if len(flits) == 1:
        assert bits >> wire.flit_bits - 16 == CRC16.of(bits & (1 << wire.flit_bits - 16) - 1, wire.flit_bits - 16)
    else:
        covered = (len(flits) - wire.crc_flits) * wire.flit_bits
        assert bits >> covered == CRC32.of(bits & (1 << covered) - 1, covered)
        if not control:
            start = wire.header_flits * wire.flit_bits
            assert (bits >> start).to_bytes(4096, "little")[: len(payload)] == payload


@quick
@given(wires)
def test_one_flit_control_wherever_it_fits(wire):
    assert (wire.control_flits == 1) == (wire.common_bits + 16 <= wire.flit_bits)


def test_one_flit_control_at_64_bits_and_256_nodes():
    """Kind 3, two nodes of 8, slot and generation 20, two incarnations of 4, try 1, CRC 16: exactly 64."""
    system = System.make(topology={"kind": "tree", "arity": 4, "levels": 4}, ni={"slots": 256})
    assert system.format.common_bits + 16 == 64 and system.format.one_flit_control


def test_a_field_that_does_not_fit_is_refused():
    wire = System.make().format
    with pytest.raises(ValueError, match="slot must fit 4 bits, not 16"):
        wire.flits({"kind": Kind.ACK, "slot": 16})


@quick
@given(st.integers(0, 65535), st.integers(0, 255), st.integers(0, 65535), st.integers(0, (1 << 20) - 1))
def test_a_packed_uid_is_unique_and_fits_a_signed_column(source, incarnation, slot, generation):
    """IMP-17"""
    uid = pack_uid(source, incarnation, slot, generation)
    assert unpack_uid(uid) == (source, incarnation, slot, generation)
    assert 0 <= uid < 1 << 63


def test_random_is_the_published_xorshift32_and_seeds_differ():
    state, seen = 1, []
    for _ in range(3):
        state = advance(state)
        seen.append(state)
    assert seen == [270369, 67634689, 2647435461]
    seeds = {seed_for(seed, unit, index) for seed in range(4) for unit in range(1, 7) for index in range(200)}
    assert len(seeds) == 4 * 6 * 200 and 0 not in seeds
    assert [scale(draw, 8, 3) for draw in (0, 85, 86, 170, 171, 255)] == [0, 0, 1, 1, 2, 2]


def test_hashes_of_events_depend_on_everything():
    base = (5, 3, 1, 0x102, 77)
    assert len({event_hash(*base)} | {event_hash(*base[:i], base[i] + 1, *base[i + 1 :]) for i in range(5)}) == 6
    assert mix64(0) == 0 and mix64(1) == 0x5692161D100B05E5
