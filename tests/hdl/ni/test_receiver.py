"""The receiver against section 4.4 in Python: fragments, checks and payload flits, each in its cycle."""

import random
from collections import deque

import pytest
from amaranth.sim import Simulator

from lethe.ni.receiver import Receiver
from lethe.spec.config import System
from lethe.spec.events import Drop, Kind
from lethe.spec.stages import ACTS
from lethe.spec.wire import CRC16, CRC32
from tests.helpers.tiers import but

NODE, INCARNATION = 1, 2
NAMELESS = (Drop.CRC, Drop.KIND, Drop.LENGTH)
NOTHING = {"valid": 0, "first": 0, "last": 0, "data": 0}


class Model:
    """Takes a flit or a gap each cycle; says what there is to show of it."""

    def __init__(self, system: System):
        self.system = system
        self.flits: list[int] = []
        self.under_way = False

    def step(self, flit):
        """(fragment, fill, message) of one cycle; a fill is {data, last}, a message (header, drop, stale, arrival)."""
        form = self.system.format
        if not flit["valid"] or flit["first"]:
            fragment, self.under_way = self.under_way, bool(flit["valid"])
            self.flits = []
        else:
            fragment = self.under_way and len(self.flits) == form.max_flits
            self.under_way &= not fragment
        if not self.under_way:
            return fragment, None, None
        index = len(self.flits)
        self.flits.append(flit["data"])
        fields = self.fields()
        payload = form.payload_flits(fields["length"])
        reach = form.header_flits + payload
        fill = None
        if fields["kind"] in (Kind.SEND, Kind.BE) and form.header_flits <= index < reach:
            fill = {"data": flit["data"], "last": index == reach - 1}
        if not flit["last"]:
            return fragment, fill, None
        self.under_way = False
        drop, stale = self.checks(fields)
        return fragment, fill, (fields, drop, stale, self.arrival(fields))

    def fields(self):
        form = self.system.format
        header = sum(flit << form.flit_bits * i for i, flit in enumerate(self.flits[: form.header_flits]))
        return {f.name: header >> f.offset & (1 << f.width) - 1 for f in form.send}

    def arrival(self, fields):
        """What the acceptance port says of a message that has just ended, or None."""
        form = self.system.format
        first, data = form.header_flits, fields["kind"] in (Kind.SEND, Kind.BE)
        if not data or len(self.flits) <= first or fields["class"] == 7:
            return None
        payload = sum(flit << form.flit_bits * i for i, flit in enumerate(self.flits[first:-1]))
        told = {name: fields[name] for name in ("source", "incarnation", "length", "try")}
        word = payload & (1 << min(64, 8 * fields["length"])) - 1
        return told | {
            "valid": 1, "cls": fields["class"], "best_effort": int(fields["kind"] == Kind.BE), "word": word
        }  # fmt: skip

    def intact(self):
        form = self.system.format
        bits, flits = form.flit_bits, self.flits
        if len(flits) == 1 and form.one_flit_control:
            return CRC16.of(flits[0] & (1 << bits - 16) - 1, bits - 16) == flits[0] >> bits - 16
        if len(flits) <= form.crc_flits:
            return False
        state = CRC32.ones
        for flit in flits[: -form.crc_flits]:
            state = CRC32.update(state, flit, bits)
        return sum(f << bits * i for i, f in enumerate(flits[-form.crc_flits :])) == state ^ CRC32.ones

    def checks(self, fields):
        system, form, single = self.system, self.system.format, len(self.flits) == 1
        kind, has_data = fields["kind"], fields["kind"] in (Kind.SEND, Kind.BE)
        answers = (Kind.ACK, Kind.REJECT) if system.ni.reject else (Kind.ACK,)
        if has_data:
            fits = fields["length"] <= system.wire.mtu and len(self.flits) == form.send_flits(fields["length"])
        else:
            fits = len(self.flits) == form.control_flits
        wrong = {
            Drop.CRC: not self.intact(),
            Drop.KIND: not (kind in (*answers, Kind.FORGET) or (has_data and not single)),
            Drop.LENGTH: not fits,
            Drop.MISROUTED: fields["destination"] != NODE,
            Drop.SOURCE: fields["source"] in (NODE, *range(system.nodes, 1 << form.node_bits)),
            Drop.SLOT: kind in answers and fields["slot"] >= system.ni.slots,
            Drop.EXTENSION: has_data and (fields["mode"] != (kind == Kind.BE) or fields["extension"] != 0),
            Drop.INCARNATION: has_data and fields["peer_incarnation"] not in (0, INCARNATION),
        }
        found = [drop for drop, bad in wrong.items() if bad]
        return found[0] if found else Drop.NONE, found == [Drop.INCARNATION] and kind == Kind.SEND


def worm(draw, system):
    """The flits of a message, often with something wrong."""
    form = system.format
    kind = draw.choice([Kind.SEND] * 5 + [Kind.BE] * 2 + [Kind.ACK] * 3 + [Kind.FORGET, Kind.REJECT, 0, 7])
    fields = {f.name: 0 for f in form.send} | {
        "kind": kind, "destination": NODE, "source": 0, "slot": draw.randrange(system.ni.slots),
        "generation": draw.getrandbits(form.generation_bits), "peer_incarnation": draw.choice((0, INCARNATION)),
        "length": draw.randint(0, system.wire.mtu), "class": draw.randrange(8), "mode": int(kind == Kind.BE),
    }  # fmt: skip
    if draw.random() < 0.4:
        wild = draw.choice([f for f in form.send if f.name != "kind"])
        fields[wild.name] = draw.getrandbits(wild.width)
    length = min(fields["length"], system.wire.mtu)
    data = [f for f in (form.send if kind in (Kind.SEND, Kind.BE) else form.common)]
    flits = form.flits({f.name: fields[f.name] for f in data}, draw.randbytes(length))
    worm = [{"valid": 1, "first": i == 0, "last": i == len(flits) - 1, "data": f} for i, f in enumerate(flits)]
    fault = draw.random()
    at = draw.randrange(len(worm))
    if fault < 0.1:
        worm[at]["data"] ^= 1 << draw.randrange(form.flit_bits)
    elif fault < 0.15:
        worm[at][draw.choice(("first", "last"))] ^= 1
    elif fault < 0.2:
        worm = worm[:at]
    elif fault < 0.25:
        more = [{"valid": 1, "first": 0, "last": 0, "data": draw.getrandbits(form.flit_bits)} for _ in range(9)]
        worm[at:at] = more[: draw.randint(1, 9)]
    elif fault < 0.3:
        worm.insert(at, dict(NOTHING))
    return worm


@pytest.mark.parametrize(
    "bits, reject, acceptance",
    but(
        [(16, True, True), (64, True, False)],
        [(16, True, True), (32, False, True), (64, True, False), (64, False, True), (128, False, True)],
    ),
)
def test_each_in_its_cycle(bits, reject, acceptance):
    system = System.make(
        topology={"kind": "crossbar", "nodes": 3},
        wire={"flit_bits": bits, "mtu": 24},
        ni={"slots": 3, "reject": reject, "control_classes": 1, "acceptance": acceptance},
        workload={"min_length": 4, "max_length": 24},
    )
    receiver, model, draw = Receiver(system), Model(system), random.Random(bits)
    seen, filled, words = set(), set(), set()

    async def process(ctx):
        ctx.set(receiver.node, NODE)
        ctx.set(receiver.incarnation, INCARNATION)
        waiting: deque = deque()
        past: deque = deque([(False, None, None)] * ACTS)
        for cycle in range(6000):
            while not waiting:
                waiting.extend(worm(draw, system))
                waiting.extend(dict(NOTHING) for _ in range(draw.choice((0, 0, 0, 1, 3))))
            flit = waiting.popleft()
            ctx.set(receiver.link_i, flit)
            # What was on the link in c−6, and what acts in the next cycle, or in four.
            fragment, fill, _ = past[0]
            assert ctx.get(receiver.fragment) == fragment, cycle
            shown = [port for port in receiver.fill if ctx.get(port.valid)]
            assert len(shown) == (fill is not None), cycle
            if fill:
                assert ctx.get(shown[0].beat.data) == fill["data"], cycle
                assert ctx.get(shown[0].beat.last) == fill["last"], cycle
                filled.add(receiver.fill.index(shown[0]))
            message = past[ACTS - 2][2]
            assert ctx.get(receiver.arrival.complete) == (message is not None), cycle
            if message and message[1] not in NAMELESS:
                fields = message[0]
                own = form_of(system, fields["kind"])
                header = ctx.get(receiver.arrival.header)
                assert {f.name: header[f.name] for f in own} == {f.name: fields[f.name] for f in own}, cycle
                assert ctx.get(receiver.arrival.slot) == fields["slot"], cycle
            assert message or not ctx.get(receiver.arrival.slot), cycle
            if acceptance:
                told = (past[-1][2] or (None,) * 4)[3]
                announced = ctx.get(receiver.announced)
                found = {name: announced[name] for name, _ in announced.shape()}
                assert found == (told or dict.fromkeys(found, 0)), cycle
                words.add(found["word"] >> 32 != 0)
            if checked := past[1][2]:
                _, drop, stale, _ = checked
                arrival = receiver.arrival
                assert ctx.get(arrival.sound) == (drop == Drop.NONE), (cycle, checked)
                assert ctx.get(arrival.drop) == drop, (cycle, checked)
                assert ctx.get(arrival.nameless) == (drop in NAMELESS), (cycle, checked)
                assert not reject or ctx.get(arrival.stale) == stale, (cycle, checked)
                seen.add(drop)
            past.popleft()
            past.append(model.step(flit))
            await ctx.tick()

    simulator = Simulator(receiver)
    simulator.add_clock(1e-6)
    simulator.add_testbench(process)
    simulator.run()
    assert seen == {Drop.NONE, *NAMELESS, Drop.MISROUTED, Drop.SOURCE, Drop.SLOT, Drop.EXTENSION, Drop.INCARNATION}
    assert len(filled) == len(receiver.fill)
    assert words == ({False, True} if acceptance else set())


def form_of(system, kind):
    return system.format.send if kind in (Kind.SEND, Kind.BE) else system.format.common
