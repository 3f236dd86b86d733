"""Answers of flow in a trace: every cause that is right passes, one that cannot be is found."""

import pytest

from lethe.spec.events import Cause, Event, Status
from lethe.spec.services.flow import Code, Out
from lethe_sim.ledger.audit import ONCE
from lethe_sim.ledger.here import audit as audit_trace
from lethe_sim.rds.golden import GoldenFlow
from lethe_sim.rds.transport import FIRST, LAST, NOWAIT, FlowRecord, SettingCode
from lethe_sim.trace import TraceWriter, open_trace
from tests.helpers.flow_oracle import flow_system
from tests.helpers.make_trace import tamper

#: Causes that the program below meets.
MET = {
    Cause.DESTINATION, Cause.LENGTH, Cause.NOT_BOUND, Cause.NOT_CONNECTED, Cause.CONGESTED, Cause.BUFFER, Cause.WINDOW,
}  # fmt: skip
RESETS = [{"node": 1, "start": 6000, "cycles": 9}]


def offer(flow: GoldenFlow, node: int, to: int, *, port: int = 0, length: int = 8, times: int = 1, sockets=1) -> None:
    for at in range(times):
        flow.send(node, FlowRecord(to, (port + at % sockets) % 2, port, FIRST | LAST | NOWAIT, at, bytes(length)))


def wait(flow: GoldenFlow, until: int) -> None:
    while flow.cycle < until:
        flow.advance(until - flow.cycle)


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    """A program that meets every cause, and a reset of node 1."""
    system = flow_system(
        3, flow={"ports": 2, "cells": 4, "in_order": 2, "quota": 2}, faults={"loss": 0.05, "resets": RESETS}
    )
    flow = GoldenFlow(system, record=True)
    offer(flow, 0, 1, times=3)  # not connected
    wait(flow, 900)
    offer(flow, 0, 1, times=6)  # the buffer
    wait(flow, 1500)
    offer(flow, 0, 1, times=12, sockets=2)  # the window
    wait(flow, 1700)
    offer(flow, 0, 7)  # no such destination
    offer(flow, 0, 1, length=40)  # too long
    wait(flow, 2000)
    flow.set(0, SettingCode.UNBIND, 1, 0)
    wait(flow, 2100)
    offer(flow, 0, 1, port=1)  # not bound
    flow.set(0, SettingCode.BIND, 1, 1)
    flow.set(1, SettingCode.RECEIVE_LIMIT, 0, 0)
    wait(flow, 3000)
    offer(flow, 0, 1, times=2)  # congested
    offer(flow, 0, 1, port=1, length=32, times=3)
    offer(flow, 0, 0, times=2)
    wait(flow, 5990)
    offer(flow, 0, 1, port=1, times=3)  # under way when the peer is reset
    wait(flow, 9000)
    offer(flow, 0, 1, times=2)
    wait(flow, 12_000)
    offer(flow, 0, 1, times=2)
    wait(flow, 20_000)
    path = tmp_path_factory.mktemp("answers") / "t.parquet"
    with TraceWriter(path, system) as writer:
        writer.append(flow.golden.take_events())
        writer.finish(cycles=flow.cycle, drained=False)
    return path


def of(rows, event: Event, **what) -> list[dict]:
    unit = flow_system(3).layout.first_service
    return [
        row for row in rows
        if row["event"] == event and row["unit"] == unit and all(row[name] == value for name, value in what.items())
    ]  # fmt: skip


def test_what_is_right_passes(trace):
    result = audit_trace(trace)
    assert not result.findings and result.verdict in (ONCE, "unfinished"), result.text()
    rows = open_trace(trace).table().to_pylist()
    assert {Cause(row["detail"]) for row in of(rows, Event.FLOW_REFUSED)} == MET
    ends = {divmod(row["detail"], 16) for row in of(rows, Event.FLOW_END)}
    assert (Status.UNKNOWN, Cause.RESTARTED) in ends


def instead(before: Cause, after: Cause, **more):
    """A refusal for another cause; its completion says the same."""

    def change(rows):
        row = of(rows, Event.FLOW_REFUSED, detail=int(before))[0]
        told = Status.REJECTED << 4
        end = next(
            end for end in of(rows, Event.FLOW_END, detail=told | before, tag=row["tag"]) if end["cycle"] > row["cycle"]
        )
        row["detail"], end["detail"] = int(after), told | after
        for name, value in more.items():
            row[name] = end[name] = value

    return change


def without(event: Event, **what):
    """The rows of an event are gone."""

    def change(rows):
        gone = of(rows, event, **what)
        assert gone
        rows[:] = [row for row in rows if row not in gone]

    return change


def with_value(event: Event, name: str, value: int, which: int = 0, **what):
    def change(rows):
        of(rows, event, **what)[which][name] = value

    return change


#: Alterations of rows → the note that tells them.
ALTERED = {
    "up, and not connected": (instead(Cause.WINDOW, Cause.NOT_CONNECTED), "though its peer is up"),
    "not up, and congested": (instead(Cause.NOT_CONNECTED, Cause.CONGESTED), "though its peer is not up"),
    "not up, and no window": (instead(Cause.NOT_CONNECTED, Cause.WINDOW), "though its peer is not up"),
    "not up, and no room": (instead(Cause.NOT_CONNECTED, Cause.BUFFER), "though its peer is not up"),
    "not congested": (instead(Cause.WINDOW, Cause.CONGESTED), "though no port of its peer is congested"),
    "no map": (without(Event.FLOW_HEARD, detail=int(Code.MAP)), "though no port of its peer is congested"),
    "a map that says so": (
        with_value(Event.FLOW_HEARD, "tag", 3, detail=int(Code.MAP), peer=1), "was admitted, and is for a port that is",
    ),
    "a node that is there": (instead(Cause.DESTINATION, Cause.DESTINATION, peer=1), "as its destination is"),
    "no such node, and unbound": (instead(Cause.NOT_BOUND, Cause.NOT_BOUND, peer=7), "as its destination is"),
    "too long, and no window": (instead(Cause.WINDOW, Cause.WINDOW, length=40), "as long as it is"),
    "the own node has no window": (instead(Cause.WINDOW, Cause.WINDOW, peer=0), "though it is for the own node"),
    "never up": (without(Event.FLOW_PEER, detail=int(Out.UP), peer=1), "admitted, and is for a peer that is not up"),
    "restarted, and not left": (without(Event.FLOW_PEER, detail=int(Out.LEAVING)), "which it has not left"),
    "sent too long": (with_value(Event.FLOW_SEND, "length", 40), "was admitted, and is longer than a message can be"),
}  # fmt: skip


@pytest.mark.parametrize("name", ALTERED)
def test_an_answer_that_cannot_be_is_found(trace, tmp_path, name):
    change, note = ALTERED[name]
    tamper(tmp_path / "t.parquet", trace, change, counters={}, drained=False)
    result = audit_trace(tmp_path / "t.parquet")
    (found,) = (found for found in result.findings if found.name == "misreported")
    assert any(note in case.note for case in found.examples), [case.note for case in found.examples]


def test_nothing_is_under_way(trace, tmp_path):
    """A refusal for want of room is found where no message has its place."""

    def change(rows):
        unit = flow_system(3).layout.first_service
        first = of(rows, Event.FLOW_REFUSED, detail=int(Cause.BUFFER))[0]["cycle"]
        gone = (Event.FLOW_SEND, Event.FLOW_CARRY)
        rows[:] = [
            row for row in rows if not (row["unit"] == unit and row["event"] in gone and row["cycle"] < first)
        ]  # fmt: skip

    tamper(tmp_path / "t.parquet", trace, change, counters={}, drained=False)
    (found,) = (found for found in audit_trace(tmp_path / "t.parquet").findings if found.name == "misreported")
    assert any("for BUFFER, with nothing under way" in case.note for case in found.examples)


def test_no_message_was_sent(trace, tmp_path):
    """A stream has two numbers before its receiver gives any credit."""

    def change(rows):
        unit = flow_system(3).layout.first_service
        first = of(rows, Event.FLOW_REFUSED, detail=int(Cause.WINDOW))[0]["cycle"]
        rows[:] = [
            row for row in rows
            if not (row["unit"] == unit and row["event"] == Event.FLOW_SEND and row["cycle"] < first)
        ]  # fmt: skip

    tamper(tmp_path / "t.parquet", trace, change, counters={}, drained=False)
    (found,) = (found for found in audit_trace(tmp_path / "t.parquet").findings if found.name == "misreported")
    assert any("for WINDOW, without any message" in case.note for case in found.examples)
