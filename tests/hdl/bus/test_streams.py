"""The adapters between a host port and AXI4-Streams, in their cycles."""

import random

import pytest
from amaranth.hdl import Module
from amaranth.lib import data, wiring
from amaranth.sim import Simulator

from lethe.bus.ni import StreamNi
from lethe.bus.signature import axi_lite, axi_stream
from lethe.bus.store_and_forward import StoreAndForward
from lethe.bus.streams import CompletionAdapter, DeliverAdapter, SendAdapter, Streams
from lethe.ni.ni import Ni
from lethe.spec.axi import axi_streams
from lethe.spec.config import System
from lethe.spec.events import Status
from lethe.spec.sections import flow, relay
from tests.helpers.tiers import but

SYSTEM = System.make(topology={"kind": "wire"}, hosted=False)
STEP = SYSTEM.format.flit_bytes


def stream_of(port: str, *, store: bool = False):
    return next(axis for axis in axi_streams(SYSTEM, store=store) if axis.port == port)


def simulate(component, *testbenches) -> None:
    simulator = Simulator(component)
    simulator.add_clock(1e-8)
    for testbench in testbenches:
        simulator.add_testbench(testbench)
    simulator.run()


def fields(axis, signal):
    return data.View(data.StructLayout(dict(axis.user)), signal)


def test_a_stream_says_what_is_wrong_with_it():
    with pytest.raises(ValueError, match="bits of tdata must be whole bytes, not 12"):
        axi_stream(12)
    with pytest.raises(ValueError, match="bits of tid must be at least 0, not -1"):
        axi_stream(8, id_bits=-1)
    with pytest.raises(ValueError, match="address_bits must be at least 2, not 1"):
        axi_lite(1)
    assert set(axi_stream(0, keep=False, last=False).members) == {"tvalid", "tready"}


def test_beats_reach_the_ni_one_cycle_later_and_back_to_back():
    """Three datagrams of 4, 0 and 2 beats: the NI takes each record in a cycle of its own."""
    axis = stream_of("send")
    adapter = SendAdapter(SYSTEM, axis)
    told, taken, beats = fields(axis, adapter.axis.tuser), [], []

    async def host(ctx):
        for tag, count in enumerate((4, 0, 2)):
            for beat in range(max(1, count)):
                ctx.set(adapter.axis.tdata, 16 * tag + beat)
                ctx.set(adapter.axis.tlast, beat == max(1, count) - 1)
                ctx.set(told.length, count * STEP)
                ctx.set(told.tag, tag)
                ctx.set(adapter.axis.tvalid, 1)
                await ctx.tick().until(adapter.axis.tready)
        ctx.set(adapter.axis.tvalid, 0)

    async def ni(ctx):
        left, cycle = 0, 0
        while len(taken) < 3 or left:
            ctx.set(adapter.send.ready, left == 0)
            ctx.set(adapter.send_data.ready, left > 0)
            _, _, record, there, beat, beating = await ctx.tick().sample(
                adapter.send.payload, adapter.send.valid, adapter.send_data.payload, adapter.send_data.valid
            )
            if left == 0 and there:
                left = record.length // STEP
                taken.append((cycle, record.tag))
            elif left and beating:
                left -= 1
                beats.append((cycle, beat))
            cycle += 1

    simulate(adapter, host, ni)
    assert taken == [(1, 0), (6, 1), (8, 2)]
    assert beats == [(2, 0), (3, 1), (4, 2), (5, 3), (9, 32), (10, 33)]


def test_a_beat_is_delivered_in_every_cycle():
    """Datagrams of all lengths one right behind the other, each beat one cycle after the NI offers it."""
    axis = stream_of("deliver")
    adapter = DeliverAdapter(SYSTEM, axis)
    lengths = [0, 1, 7, 8, 9, 16, 31, 32, 0, 0, 24]
    wanted, found = [], []
    for length in lengths:
        count = max(1, -(-length // STEP))
        for beat in range(count):
            kept = min(max(length - beat * STEP, 0), STEP)
            wanted.append(((1 << kept) - 1, int(beat == count - 1), length))

    async def ni(ctx):
        ctx.set(adapter.axis.tready, 1)
        for length in lengths:
            count = -(-length // STEP)
            for beat in range(max(1, count)):
                ctx.set(adapter.deliver.payload.length, length)
                ctx.set(adapter.empty, length == 0)
                ctx.set(adapter.deliver.payload.source, 1)
                ctx.set(adapter.deliver.valid, 1)
                ctx.set(adapter.deliver_data.valid, count > 0)
                ctx.set(adapter.deliver_data.payload.last, beat == count - 1)
                assert ctx.get(adapter.deliver.ready) == (beat == max(1, count) - 1)
                assert ctx.get(adapter.deliver_data.ready) == (count > 0)
                await ctx.tick()
        ctx.set(adapter.deliver.valid, 0)
        await ctx.tick().repeat(3)

    async def host(ctx):
        for _ in range(len(wanted) + 2):
            _, _, valid, keep, last, user, source = await ctx.tick().sample(
                adapter.axis.tvalid, adapter.axis.tkeep, adapter.axis.tlast, adapter.axis.tuser, adapter.axis.tid
            )
            told = data.Const(data.StructLayout(dict(axis.user)), user)
            found.append((keep, last, told.length) if valid else None)
            assert not valid or (source, told.aborted) == (1, 0)

    simulate(adapter, ni, host)
    assert found == [None, *wanted, None]


def test_a_reset_ends_what_is_delivered_with_a_beat_that_says_so():
    """The beat that is shown stays; then one without bytes; then the datagrams after the reset."""
    axis = stream_of("deliver")
    adapter = DeliverAdapter(SYSTEM, axis)
    told = fields(axis, adapter.axis.tuser)

    async def test(ctx):
        def shown():
            values = (adapter.axis.tvalid, adapter.axis.tkeep, adapter.axis.tlast, told.aborted, told.length)
            return tuple(int(ctx.get(value)) for value in values)

        ctx.set(adapter.deliver.payload, {"length": 24, "source": 1})
        ctx.set(adapter.deliver.valid, 1)
        ctx.set(adapter.deliver_data.valid, 1)
        await ctx.tick()
        assert shown() == (1, 0xFF, 0, 0, 24)
        ctx.set(adapter.node_reset, 1)
        ctx.set(adapter.deliver.valid, 0)
        ctx.set(adapter.deliver_data.valid, 0)
        await ctx.tick().repeat(3)
        ctx.set(adapter.node_reset, 0)
        await ctx.tick()
        assert shown() == (1, 0xFF, 0, 0, 24)  # until it is taken
        ctx.set(adapter.deliver.payload, {"length": 0, "source": 1})
        ctx.set(adapter.empty, 1)
        ctx.set(adapter.deliver.valid, 1)
        await ctx.tick().repeat(2)
        assert not ctx.get(adapter.deliver.ready)
        ctx.set(adapter.axis.tready, 1)
        await ctx.tick()
        assert shown() == (1, 0, 1, 1, 24)
        assert ctx.get(adapter.deliver.ready)
        await ctx.tick()
        assert shown() == (1, 0, 1, 0, 0)
        # A reset after a last beat, or between datagrams, adds nothing.
        ctx.set(adapter.deliver.valid, 0)
        ctx.set(adapter.node_reset, 1)
        await ctx.tick().repeat(2)
        ctx.set(adapter.node_reset, 0)
        for _ in range(5):
            await ctx.tick()
            assert not shown()[0]

    simulate(adapter, test)


def test_a_completion_keeps_the_incarnation_of_its_life():
    """One is shown and one is held behind it while the host takes nothing."""
    adapter = CompletionAdapter(SYSTEM, stream_of("completion"))

    async def test(ctx):
        def shown():
            found = data.Const(adapter.completion.payload.shape(), ctx.get(adapter.axis.tdata))
            return found.tag, found.status, ctx.get(adapter.axis.tuser), ctx.get(adapter.axis.tlast)

        for tag, incarnation in ((5, 3), (6, 4)):
            ctx.set(adapter.incarnation, incarnation)
            ctx.set(adapter.completion.payload, {"tag": tag, "status": Status.UNKNOWN, "slot": 2})
            ctx.set(adapter.completion.valid, 1)
            assert ctx.get(adapter.completion.ready)
            await ctx.tick()
        ctx.set(adapter.incarnation, 5)
        ctx.set(adapter.completion.payload, {"tag": 7})
        for _ in range(3):
            assert not ctx.get(adapter.completion.ready)
            assert shown() == (5, Status.UNKNOWN, 3, 1)
            await ctx.tick()
        ctx.set(adapter.axis.tready, 1)
        await ctx.tick()
        assert shown() == (6, Status.UNKNOWN, 4, 1)
        assert ctx.get(adapter.completion.ready)
        await ctx.tick()
        assert shown() == (7, 0, 5, 1)

    simulate(adapter, test)


def test_what_is_stored_leaves_while_the_next_comes():
    """Full rate on both sides: datagrams of the longest kind, a beat in each cycle in and out."""
    store = StoreAndForward(SYSTEM, stream_of("send", store=True), stream_of("send"))
    count, flits, cycles = 12, SYSTEM.slot_flits, {"i": [], "o": []}
    told = fields(stream_of("send"), store.o.tuser)

    async def host(ctx):
        ctx.set(store.i.tkeep, 0xFF)
        ctx.set(store.i.tvalid, 1)
        for n in range(count * flits):
            ctx.set(store.i.tdata, n)
            ctx.set(store.i.tlast, n % flits == flits - 1)
            await ctx.tick().until(store.i.tready)
        ctx.set(store.i.tvalid, 0)

    async def ni(ctx):
        ctx.set(store.o.tready, 1)
        for cycle in range(count * flits + 20):
            _, _, taken, valid, beat, last, length = await ctx.tick().sample(
                store.i.tvalid & store.i.tready, store.o.tvalid, store.o.tdata, store.o.tlast, told.length
            )
            if taken:
                cycles["i"].append(cycle)
            if valid:
                assert beat == len(cycles["o"]) and last == (beat % flits == flits - 1) and length == flits * STEP
                cycles["o"].append(cycle)

    simulate(store, host, ni)
    for found in cycles.values():
        assert found == list(range(found[0], found[0] + count * flits))
    assert cycles["o"][0] == flits + 2  # its last beat came in cycle flits - 1


#: Cycles in which ``malformed`` is 1, by MTU and what each of two datagrams has in ``tkeep``, beat by beat.
TOLD = {
    (7, (0xFF,)): 1, (7, (0x7F,)): 0, (7, (0xFF, 0x01)): 1, (7, (0x05,)): 1, (8, (0xFF, 0x01)): 1,
    (8, (0xFF,)): 0, (8, (0xFF, 0xFF, 0xFF)): 1, (8, (0xFF, 0x00)): 1, (40, (0xFF, 0x0F, 0xFF)): 1, (40, (0,)): 0,
}  # fmt: skip


def told_of(system, keeps, *, mode: int = 0) -> tuple[int, set[int]]:
    """Cycles in which ``malformed`` is 1 for two such datagrams, and the lengths that the NI gets to see.

    The mode is beside first beats alone.
    """
    streams = Streams(system, store=True)
    axis, found, lengths = streams.s_axis_send, [], set()
    told = fields(next(axis for axis in axi_streams(system, store=True) if axis.port == "send"), axis.tuser)

    async def host(ctx):
        ctx.set(axis.tvalid, 1)
        for place, keep in 2 * [*enumerate(keeps)]:
            last = place == len(keeps) - 1
            ctx.set(told.mode, mode if place == 0 else mode ^ 2)
            ctx.set(axis.tkeep, keep)
            ctx.set(axis.tlast, last)
            await ctx.tick().until(axis.tready)
        ctx.set(axis.tvalid, 0)

    async def ni(ctx):
        ctx.set(streams.send.ready, 1)
        ctx.set(streams.send_data.ready, 1)
        for _ in range(40 + 6 * len(keeps)):
            _, _, malformed, taken, length = await ctx.tick().sample(
                streams.malformed, streams.send.valid, streams.send.payload.length
            )
            found.append(malformed)
            if taken:
                lengths.add(length)

    simulate(streams, host, ni)
    return sum(found), lengths


@pytest.mark.parametrize(("mtu", "keeps"), TOLD)
def test_what_is_malformed_in_the_store_is_told_once(mtu, keeps):
    """Also where what leaves instead has no more beats than its length asks for."""
    found, lengths = told_of(System.make(topology={"kind": "wire"}, wire={"mtu": mtu}, hosted=False), keeps)
    assert found == 2 * TOLD[mtu, keeps]
    assert (lengths == {mtu + 1}) == TOLD[mtu, keeps] and len(lengths) == 1


def of_bytes(count: int, step: int) -> tuple[int, ...]:
    """The ``tkeep`` of so many bytes."""
    return tuple((1 << min(step, count - at)) - 1 for at in range(0, count, step))


@pytest.mark.parametrize("bits", [16, 64, 128])
def test_the_store_knows_the_mtu_of_a_service(bits):
    """That of flow; that of relay for its messages, and for all else that of the NI."""
    wire, step = {"flit_bits": bits, "mtu": 61}, bits // 8
    with_flow = System.make(
        topology={"kind": "wire"}, wire=wire, flow={"ports": 2, "cells": 4, "in_order": 1}, ni=flow.OF_NI, hosted=False
    )
    with_relay = System.make(topology={"kind": "wire"}, wire=wire, relay={"slots": 2}, ni=relay.OF_NI, hosted=False)
    assert with_flow.flow_mtu < 61 and with_relay.relay_mtu < 61
    for system, mtu, refused, mode in (
        (with_flow, with_flow.flow_mtu, with_flow.flow_mtu + 1, 0),
        (with_relay, with_relay.relay_mtu, 62, 2),
        (with_relay, 61, 62, 0),
    ):
        assert told_of(system, of_bytes(mtu, step), mode=mode) == (0, {mtu})
        assert told_of(system, of_bytes(mtu + 1, step), mode=mode) == (2, {refused})


class Pair(wiring.Component):
    """Two NIs on a wire without faults."""

    def __init__(self, make):
        self.nis = [make(), make()]
        super().__init__({})

    def elaborate(self, platform):
        m = Module()
        for number, (ni, other) in enumerate(zip(self.nis, self.nis[::-1], strict=True)):
            m.submodules[f"ni{number}"] = ni
            m.d.comb += [
                ni.node.eq(number), ni.seed.eq(number + 1), ni.incarnation.eq(1), ni.link_enable.eq(1),
                ni.link_i.eq(other.link_o),
            ]  # fmt: skip
        return m


def latency(on_streams: bool, payload: bytes) -> int:
    """Cycles from the offer of a datagram's first beat, or record, to the take of its last beat at the other end."""
    make = (lambda: StreamNi(SYSTEM, watch=False, dump=False)) if on_streams else lambda: Ni(SYSTEM, watch=False)
    pair = Pair(make)
    near, far = pair.nis
    found: list[int] = []

    async def clock(ctx):
        ctx.set(far.m_axis_deliver.tready if on_streams else far.host.deliver.ready, 1)
        if not on_streams:
            ctx.set(far.host.deliver_data.ready, 1)
        await ctx.tick().until(near.host.ready)
        for cycle in range(200):
            port = far.m_axis_deliver if on_streams else far.host.deliver_data
            last = port.tvalid & port.tlast if on_streams else port.valid & port.payload.last
            _, _, ended = await ctx.tick().sample(last)
            if ended:
                found.append(cycle)

    async def host(ctx):
        await ctx.tick().until(near.host.ready)
        beats = [int.from_bytes(payload[at : at + STEP], "little") for at in range(0, len(payload), STEP)]
        if on_streams:
            axis = near.s_axis_send
            ctx.set(axis.tdest, 1)
            ctx.set(fields(stream_of("send"), axis.tuser).length, len(payload))
            for number, beat in enumerate(beats, 1):
                ctx.set(axis.tdata, beat)
                ctx.set(axis.tlast, number == len(beats))
                ctx.set(axis.tvalid, 1)
                await ctx.tick().until(axis.tready)
            ctx.set(axis.tvalid, 0)
            return
        ctx.set(near.host.send.payload, {"destination": 1, "length": len(payload)})
        ctx.set(near.host.send.valid, 1)
        await ctx.tick().until(near.host.send.ready)
        ctx.set(near.host.send.valid, 0)
        for beat in beats:
            ctx.set(near.host.send_data.payload, beat)
            ctx.set(near.host.send_data.valid, 1)
            await ctx.tick().until(near.host.send_data.ready)
        ctx.set(near.host.send_data.valid, 0)

    simulate(pair, clock, host)
    (cycle,) = found
    return cycle


@pytest.mark.parametrize("length", but([], [1, 8, 32], push=[8]))
def test_streams_add_two_cycles_from_end_to_end(length):
    payload = random.Random(length).randbytes(length)
    assert latency(True, payload) - latency(False, payload) == 2


@pytest.mark.push
@pytest.mark.parametrize("whole_node", [False, True])
def test_what_a_loop_delivers_outlives_a_reset_of_the_ni_alone(whole_node):
    """Only a reset of the services, too, ends it."""
    system = System.make(topology={"kind": "wire"}, loop={"slots": 2}, hosted=False)
    node = StreamNi(system, watch=False, dump=False)
    axis = next(axis for axis in axi_streams(system) if axis.port == "deliver_loop")
    send, deliver, found = node.s_axis_send, node.m_axis_deliver_loop, []

    async def test(ctx):
        ctx.set(node.incarnation, 1)
        ctx.set(node.link_enable, 1)
        await ctx.tick().until(node.host.ready)
        ctx.set(fields(stream_of("send"), send.tuser).length, 4 * STEP)
        ctx.set(send.tvalid, 1)
        for beat in range(4):
            ctx.set(send.tdata, 10 + beat)
            ctx.set(send.tlast, beat == 3)
            await ctx.tick().until(send.tready)
        ctx.set(send.tvalid, 0)
        await ctx.tick().until(deliver.tvalid)
        await ctx.tick().repeat(3)
        ctx.set(node.node_reset, 1)
        ctx.set(node.service_reset, whole_node)
        ctx.set(node.incarnation, 2)
        await ctx.tick().repeat(5)
        ctx.set(node.node_reset, 0)
        ctx.set(node.service_reset, 0)
        ctx.set(deliver.tready, 1)
        for _ in range(40):
            _, _, valid, beat, last, user = await ctx.tick().sample(
                deliver.tvalid, deliver.tdata, deliver.tlast, deliver.tuser
            )
            if valid:
                aborted = data.Const(data.StructLayout(dict(axis.user)), user).aborted
                found.append(("aborted" if aborted else beat, last))

    simulate(node, test)
    assert found == ([(10, 0), ("aborted", 1)] if whole_node else [(10, 0), (11, 0), (12, 0), (13, 1)])
