"""Codes and counters fit the places that the trace words and the addresses give them."""

import dataclasses

import pytest

from lethe.spec import trace
from lethe.spec.config import System
from lethe.spec.events import (
    ARRIVALS,
    CAUSE_BITS,
    COUNTED,
    EVENTS,
    LANE_NAMES,
    LAUNCHES,
    LINK_COUNTED,
    LOOP_COUNTED,
    OPTIONAL_COUNTERS,
    REFUSALS,
    ROUTER_COUNTED,
    ROUTER_COUNTER_STEP,
    UNREADABLE,
    Cause,
    Column,
    Counter,
    Drop,
    Event,
    LinkCounter,
    LoopCounter,
    Role,
    RouterCounter,
    Status,
    Unit,
)
from lethe.spec.ports import records
from lethe.spec.services import SERVICES

#: The lanes of the units that have any with names.
LANES = {Unit.NI: LANE_NAMES, **{service.unit: service.lanes for service in SERVICES}}


def test_codes_fit_their_fields():
    assert max(Event) < 1 << trace.EVENT.bits
    assert max(Drop) < 1 << trace.DETAIL.bits
    assert max(Cause) < 1 << CAUSE_BITS and max(Status) < 1 << trace.DETAIL.bits - CAUSE_BITS
    assert len(Event) == len(Event.__members__)  # no code twice


def test_the_table_tells_of_every_event():
    assert set(EVENTS) == set(Event) - {Event.NOTHING} and list(EVENTS) == sorted(EVENTS)
    for event, facts in EVENTS.items():
        lanes = [names for unit, names in LANES.items() if unit in facts.units]
        assert (facts.lane is not None) == bool(lanes), event
        assert facts.lane is None or facts.lane < len(lanes[0]), event
        assert facts.worm is None or facts.role & (Role.LAUNCH | Role.ARRIVAL), event
        assert facts.worm or event is Event.DROP or event not in (*LAUNCHES, *ARRIVALS), event
        assert Column.HEAD not in facts.columns or facts.units == (Unit.ROUTER,), event
        assert facts.detail is None or max(facts.detail) < 1 << trace.DETAIL.bits, event
    assert not set(UNREADABLE) & set(REFUSALS)


def test_fields_of_words_do_not_overlap_and_fit():
    of_event = (trace.EVENT, trace.DETAIL, trace.PEER, trace.LENGTH, trace.EXTRA)
    assert sum(((1 << field.bits) - 1) << field.shift for field in of_event) == trace.MASK64
    assert trace.HEAD.shift + trace.HEAD.bits == trace.WORD_BITS and trace.EVENT.of(0x1234) == 0x34
    tables = (trace.STIMULUS_RECORD, trace.STIMULUS_LIMITS, trace.STIMULUS_CANCEL, trace.STIMULUS_REFUSAL)
    for table in (*tables, trace.STIMULUS_SWEEP):
        assert sum(bits for _, bits in table) <= trace.WORD_BITS
    assert trace.fields((("a", 3), ("b", 2))) == {"a": (0, 3), "b": (3, 2)}


def test_counters_fit_their_addresses():
    options = (({}, 32, 32), ({"reject": True}, 34, 64), ({"acceptance": True}, 37, 64), ({"sweep": True}, 38, 64))
    for ni, addresses, step in options:
        system = System.make(ni=ni)
        counted = {option for counter, option in OPTIONAL_COUNTERS.items() if counter in system.counters}
        assert counted == {*ni} and {*Counter} - {*OPTIONAL_COUNTERS} <= {*system.counters}
        assert max(system.counters) + 1 == system.counter_addresses == addresses <= system.counter_step == step
        assert system.counter_step % ROUTER_COUNTER_STEP == 0
    everything = System.make(ni=dict.fromkeys(OPTIONAL_COUNTERS.values(), True))
    assert tuple(Counter) == everything.counters and len(RouterCounter) <= ROUTER_COUNTER_STEP
    assert set(COUNTED) == set(Counter) - {Counter.REPLIES_DROPPED}
    assert set(ROUTER_COUNTED) == set(RouterCounter) and set(LINK_COUNTED) == set(LinkCounter)
    assert set(LOOP_COUNTED) == set(LoopCounter)


@pytest.mark.parametrize("fifos", [0, 1, 7])
def test_no_two_words_of_an_ni_share_a_place(fifos):
    layout = dataclasses.replace(System.make().layout, control_fifos=fifos)
    lanes = [trace.lane_word(lane) + half for lane in range(len(layout.lanes)) for half in (0, 1)]
    others = [trace.NI_FLAGS, *(word + half for word in (trace.NI_FLIT, trace.NI_BEAT) for half in (0, 1))]
    assert sorted(lanes + others) == list(range(layout.ni_words))
    assert [layout.lanes[trace.take_lane(i)] for i in range(fifos + 1)] == [
        "take",
        *(f"take {i}" for i in range(1, fifos + 1)),
    ]


def test_layout_of_a_system():
    system = System.make(topology={"kind": "tree", "arity": 2, "levels": 2}, ni={"control_classes": 2})
    assert system.layout.router_base(0) == system.layout.fabric_base == 4 * system.layout.ni_words == 4 * (17 + 4)
    assert system.layout.words == system.layout.link_base + -(-len(system.graph.links) // trace.LINKS_PER_WORD)
    assert system.layout.units == system.nodes + system.graph.routers + len(system.graph.links)


def test_services_come_after_all_else():
    """With a loop, every node's words and unit follow those of the links."""
    plain = System.make(topology={"kind": "tree", "arity": 4, "levels": 2})
    layout, before = plain.replace(loop={"slots": 2}).layout, plain.layout
    assert layout.service_base == before.words and layout.service_words == 2 * 3 + 3
    assert layout.words == before.words + 16 * 9
    assert layout.units == before.units + 16 and layout.service_unit(5, 0) == before.units + 5
    assert layout.service_at(layout.service_unit(5, 0)) == (5, 0)
    assert [layout.unit_name(unit) for unit in (0, 15, 16, 23, 24)] == ["ni0", "ni15", "router0", "router7", "link0"]
    assert layout.unit_name(before.units - 1) == f"link{len(plain.graph.links) - 1}"
    assert [layout.unit_name(before.units + node) for node in (0, 15)] == ["loop0", "loop15"]


def test_stimulus_words_are_those_of_the_port_of_the_host():
    """What a service keeps to itself, no stimulus drives."""
    ni = {"control_classes": 1, "control_slots": 1, "merge_bits": 8, "acceptance": True, "sweep": True}
    system = System.make(ni=ni)
    layout = system.layout
    places = layout.stimulus_merge, layout.stimulus_refusal, layout.stimulus_sweep
    assert (*places, layout.stimulus_words) == (10, 12, 13, 14)
    kept = dataclasses.replace(system.top_port, control=False, merge_bits=0, acceptance=False)
    narrow = dataclasses.replace(layout, port=kept)
    assert (narrow.stimulus_sweep, narrow.stimulus_words) == (6, 7)
    assert dataclasses.replace(layout, port=dataclasses.replace(kept, sweep=False)).stimulus_words == 6
    assert System.make().layout.stimulus_words == 6
    for name, field in (("control", "accepted"), ("acceptance", "arrival"), ("sweep", "sweep")):
        without = records(system, dataclasses.replace(system.top_port, **{name: False}))
        assert field in records(system) and without.get(field) != records(system)[field]
