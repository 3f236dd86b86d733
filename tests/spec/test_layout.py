"""Codes and counters fit the places that the trace words and the addresses give them."""

import dataclasses

import pytest

from lethe.spec import trace
from lethe.spec.config import System
from lethe.spec.events import (
    COUNTED,
    COUNTER_STEP,
    ROUTER_COUNTED,
    ROUTER_COUNTER_STEP,
    Cause,
    Counter,
    Drop,
    Event,
    RouterCounter,
    Status,
)


def test_codes_fit_their_fields():
    assert max(Event) < 1 << trace.EVENT[1]
    assert max(Drop) < 1 << trace.DETAIL[1]
    assert max(Cause) < 16 and max(Status) << 4 | 15 < 1 << trace.DETAIL[1]


def test_counters_fit_their_addresses():
    assert len(Counter) <= COUNTER_STEP and len(RouterCounter) <= ROUTER_COUNTER_STEP
    assert COUNTER_STEP % ROUTER_COUNTER_STEP == 0
    assert set(COUNTED) == set(Counter) - {Counter.REPLIES_DROPPED} and set(ROUTER_COUNTED) == set(RouterCounter)


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
    assert system.layout.router_base(0) == 4 * system.layout.ni_words == 4 * (17 + 4)
    assert system.layout.words == system.layout.link_base + -(-len(system.graph.links) // trace.LINKS_PER_WORD)
