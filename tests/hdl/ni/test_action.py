"""The action as a pipeline against an act at a time: sections 4.4, 4.5 and 4.13, back to back on few slots and entries.

The tables are the test's own, with the least that the action may expect of them: a row or an entry is as of four cycles
before the act, and an entry that is written in that very cycle may be anything.
"""

import random
from collections import deque
from dataclasses import dataclass, field
from typing import Any

import pytest
from amaranth.hdl import ResetInserter, Signal
from amaranth.sim import Simulator

from lethe.ni.action import Action
from lethe.spec.config import System
from lethe.spec.events import ACCEPTANCE, Cause, Drop, Event, Kind, Status
from lethe.spec.stages import ACCEPT_ACTS, ACCEPT_JUDGED, CHOSEN
from tests.helpers.tiers import but

RESETS, CYCLES = 20, 90
EMPTY = {"valid": 0, "source": 0, "slot": 0, "generation": 0, "incarnation": 0}
NODE, INCARNATION = 0, 1
#: From an end to the next acceptance of its slot: two queues of two cycles each.
REST = 4


@dataclass
class Slot:
    """What the test knows of a slot; ``accepted`` and ``ended`` are cycles."""

    row: dict = field(default_factory=dict)
    phase: int = 0
    live: bool = False
    accepted: int = -100
    ended: int = -100
    launched: bool = False


class Model:
    """Acts at once, on the state that all earlier acts left."""

    def __init__(self, system: System):
        self.system = system
        self.slots = [Slot() for _ in range(system.ni.slots)]
        self.sets: list[list[dict | None]] = [[None] * system.ni.ways for _ in range(system.ni.sets)]
        self.before = self.sets  # as they were before the act
        self.changes: list[tuple[int, int]] = []  # of sets: the cycle, and the set
        self.refusal, self.index, self.swept = 0, 0, False

    def live(self, slot: int, cycle: int) -> bool:
        return slot < len(self.slots) and self.slots[slot].live and self.slots[slot].accepted + ACCEPT_ACTS <= cycle

    def act(self, act: dict | None, cycle: int, time: int, ready: bool, room: list, ladder: bool) -> dict:
        """What is shown in the act's cycle: event, detail, and what goes to the queues."""
        nothing = dict.fromkeys(("commit", "reply", "push", "repeat", "ended"))
        out: dict[str, Any] = {"event": Event.NOTHING, "detail": 0, **nothing}
        self.swept = False
        if act is None or act["kind"] == "dump":
            return out
        self.before = [list(ways) for ways in self.sets]
        getattr(self, act["kind"])(act, out, cycle, time, ready, room, ladder)
        self.changes += [(cycle, i) for i, ways in enumerate(self.sets) if ways != self.before[i]]
        return out

    # Messages.

    def message(self, act, out, cycle, time, ready, room, ladder):
        header, drop = act["header"], act["drop"] if ready else Drop.RESETTING
        if drop != Drop.NONE:
            out |= {"event": Event.DROP, "detail": drop}
            if drop == Drop.INCARNATION and header["kind"] == Kind.SEND and self.system.ni.reject:
                out["reply"] = self.answer(header, reject=1)
            return
        acts = {
            Kind.SEND: self.send, Kind.BE: self.best_effort, Kind.ACK: self.ack, Kind.FORGET: self.forget,
            Kind.REJECT: self.reject,
        }  # fmt: skip
        fifo = fifo_of(self.system, header["class"])
        acts[Kind(header["kind"])](header, out, cycle, time, room[fifo], ladder)
        if out["commit"] is not None and fifo == 0 and self.refusal:
            self.refuse(header, out)

    def answer(self, header, **more):
        names = ("slot", "generation", "incarnation", "try")
        return {"destination": header["source"], "peer_incarnation": INCARNATION, "forget": 0, "reject": 0} | {
            name: header[name] for name in names
        } | more  # fmt: skip

    def send(self, header, out, cycle, time, room, ladder):
        entry = {name: header[name] for name in EMPTY if name != "valid"}
        number = set_of(self.system, entry["source"], entry["slot"])
        ways = self.sets[number]
        own = [way for way, other in enumerate(ways) if other and key(other) == key(entry)]
        free = [way for way, other in enumerate(ways) if not other]
        if own and ways[own[0]] == entry:
            out |= {"event": Event.DUPLICATE, "reply": self.answer(header)}
            return
        missing = ((not own + free, Drop.TABLE_FULL), (not room, Drop.DELIVER_FULL), (not ladder, Drop.TIMER_FULL))
        for missed, reason in missing:
            if missed:
                out |= {"event": Event.DROP, "detail": reason}
                return
        way = (own + free)[0]
        ways[way] = entry
        token = entry | {"set": number, "way": way, "try": header["try"], "tries": 0}
        out |= {"event": Event.DELIVER, "reply": self.answer(header), "push": (token, 0, time)}
        out["commit"] = header["class"]

    def refuse(self, header, out):
        """What was to be delivered is not: nothing of it stays."""
        self.sets = self.before
        reason = (Drop.NOT_OPEN, Drop.PORT_FULL, Drop.EARLY)[self.refusal - 1]
        out |= {"event": Event.DROP, "detail": reason} | dict.fromkeys(("commit", "reply", "push"))
        if reason == Drop.NOT_OPEN and header["kind"] == Kind.SEND and self.system.ni.reject:
            out["reply"] = self.answer(header, reject=1)

    def best_effort(self, header, out, cycle, time, room, ladder):
        if room:
            out |= {"event": Event.DELIVER_BE, "commit": header["class"]}
        else:
            out |= {"event": Event.DROP, "detail": Drop.DELIVER_FULL}

    def forget(self, header, out, cycle, time, room, ladder):
        entry = {name: header[name] for name in EMPTY if name != "valid"}
        ways = self.sets[set_of(self.system, entry["source"], entry["slot"])]
        out["event"] = Event.FORGET_IGNORED
        if entry in ways and header["peer_incarnation"] == INCARNATION:
            ways[ways.index(entry)] = None
            out["event"] = Event.FORGOTTEN

    def answers(self, header, cycle):
        slot = header["slot"]
        row = self.slots[slot].row
        return (
            self.live(slot, cycle)
            and (row["generation"], row["destination"]) == (header["generation"], header["source"])
            and header["incarnation"] == INCARNATION
            and not (row["best_effort"] or row["refused"])
        )

    def ack(self, header, out, cycle, time, room, ladder):
        out["event"] = Event.ACK_IGNORED
        if self.answers(header, cycle):
            self.end(header["slot"], out, cycle, Status.ACCEPTED, Cause.NONE, header["peer_incarnation"])
            out |= {"event": Event.RELEASE, "detail": 0}
        out["reply"] = self.answer(header, forget=1, peer_incarnation=header["peer_incarnation"])

    def reject(self, header, out, cycle, time, room, ladder):
        out["event"] = Event.REJECT_IGNORED
        if self.answers(header, cycle):
            self.end(header["slot"], out, cycle, Status.UNKNOWN, Cause.RESTARTED, header["peer_incarnation"])

    # Requests.

    def end(self, number, out, cycle, status, cause, peer=0):
        slot = self.slots[number]
        slot.live, slot.ended = False, cycle
        row = slot.row
        out |= {"event": Event.GIVE_UP, "detail": cause}
        out["ended"] = {
            "slot": number, "generation": row["generation"], "destination": row["destination"], "tag": row["tag"],
            "status": status, "cause": cause, "peer_incarnation": peer,
        }  # fmt: skip

    def named(self, act, cycle):
        return self.live(act["slot"], cycle) and self.slots[act["slot"]].row["generation"] == act["generation"]

    def finish(self, act, out, cycle, *_):
        if self.named(act, cycle):
            self.end(act["slot"], out, cycle, act["status"], act["cause"])

    def repeat_hold(self, act, out, cycle, time, *_):
        if not self.named(act, cycle):
            return
        row = self.slots[act["slot"]].row
        if row["retry_limit"] and act["tries"] >= row["retry_limit"]:
            self.end(act["slot"], out, cycle, Status.UNKNOWN, Cause.RETRY_LIMIT)
        elif row["deadline"]["given"] and not (time - row["deadline"]["time"]) >> self.system.time_bits - 1 & 1:
            self.end(act["slot"], out, cycle, Status.UNKNOWN, Cause.DEADLINE)
        else:
            tries = min(act["tries"] + 1, 255)
            out |= {"event": Event.REPEAT, "detail": tries}
            life = {name: act[name] for name in ("slot", "generation")}
            out["repeat"] = life | {"tries": tries, "rung": act["rung"]}

    def ack_hold(self, act, out, cycle, time, *_):
        entry = {name: act[name] for name in EMPTY if name != "valid"}
        ways, limit = self.sets[act["set"]], self.system.timers.ack_limit
        if ways[act["way"]] != entry:
            return
        if limit and act["tries"] >= limit:
            ways[act["way"]] = None
            out["event"] = Event.ORPHAN
            return
        tries = min(act["tries"] + 1, 255)
        token = {name: act[name] for name in (*entry, "set", "way", "try")} | {"tries": tries}
        out |= {"event": Event.ACK_REPEAT, "detail": tries, "reply": self.answer(act)}
        out["push"] = token, act["rung"], time

    def sweep(self, act, out, cycle, *_):
        """A step; ``swept``: it is over with the last set."""
        if any(cycle - CHOSEN <= at < cycle and where == self.index for at, where in self.changes):
            out["waits"] = True
            return
        ways = self.sets[self.index]
        for way, entry in enumerate(ways):
            if entry and entry["source"] == act["source"]:
                ways[way] = None
                act |= entry
                out["event"] = Event.SWEPT
                return
        self.swept = self.index == len(self.sets) - 1
        self.index = (self.index + 1) % len(self.sets)

    def cancel(self, act, out, cycle, *_):
        if not self.named(act, cycle) or self.slots[act["slot"]].row["refused"]:
            return
        status = Status.UNKNOWN if self.slots[act["slot"]].launched else Status.NEVER_SENT
        self.end(act["slot"], out, cycle, status, Cause.CANCELLED)


def key(entry):
    return entry["source"], entry["slot"]


def fifo_of(system: System, cls: int) -> int:
    lowest = (1 << system.format.class_bits) - system.ni.control_classes
    return (1 << system.format.class_bits) - cls if cls >= lowest else 0


def set_of(system: System, source: int, slot: int) -> int:
    bits = system.ni.sets.bit_length() - 1
    number = source << system.format.slot_bits | slot
    number ^= number >> 3 ^ number >> 7
    result = 0
    while bits and number:
        result ^= number & (1 << bits) - 1
        number >>= bits
    return result


class Bench:
    """Draws what may act, and holds the action against the model."""

    def __init__(self, system: System, seed: int):
        self.system, self.draw = system, random.Random(seed)
        self.dut, self.reset = Action(system), Signal()
        self.seen: set = set()

    # What is drawn.

    def uid(self):
        draw = self.draw
        return {
            "source": draw.randint(1, 2), "slot": draw.randrange(self.system.ni.slots), "generation": draw.randrange(2),
            "incarnation": draw.choice((INCARNATION, INCARNATION, 2)), "try": draw.randrange(2),
        }  # fmt: skip

    def header(self):
        draw = self.draw
        kinds = [Kind.SEND] * 5 + [Kind.BE] + [Kind.ACK] * 3 + [Kind.FORGET] * 4
        kinds += [Kind.REJECT] * 2 if self.system.ni.reject else []
        return self.uid() | {
            "kind": draw.choice(kinds), "destination": draw.randrange(3), "length": draw.randrange(9),
            "peer_incarnation": draw.choice((INCARNATION, INCARNATION, 2)), "class": draw.randrange(8),
        }  # fmt: skip

    def row(self, cycle):
        draw = self.draw
        return {
            "generation": draw.randrange(2), "destination": draw.randint(1, 2), "best_effort": draw.random() < 0.1,
            "refused": draw.random() < 0.1, "retry_limit": draw.choice((0, 0, 3)), "tag": draw.getrandbits(16),
            "deadline": {"given": draw.random() < 0.3, "time": self.time + draw.randrange(30)},
        }  # fmt: skip

    def request(self, name):
        draw, uid = self.draw, self.uid()
        life = {"slot": uid["slot"], "generation": uid["generation"]}
        tries, rung = draw.choice((0, 2, 3, 7, 8, 254, 255)), draw.randrange(self.system.rungs)
        if name == "finish":
            return life | {"status": draw.choice((Status.UNKNOWN, Status.REJECTED)), "cause": Cause.BEST_EFFORT}
        if name == "repeat_hold":
            return life | {"tries": tries, "rung": rung}
        if name == "ack_hold":
            number, way = set_of(self.system, uid["source"], uid["slot"]), draw.randrange(self.system.ni.ways)
            held = self.model.sets[number][way]
            uid |= held if held and draw.random() < 0.6 else {}
            return uid | {"set": number, "way": way, "tries": tries, "rung": rung}
        if name == "cancel":
            return life
        if name == "sweep":
            return {"source": draw.randrange(4)}
        return {"index": draw.randrange(max(self.system.ni.slots, self.system.ni.sets))}

    # What is given.

    def offer(self, ctx, name, act):
        port = getattr(self.dut, name)
        payload = {k: v for k, v in act.items() if k != "rung"}
        if name in ("repeat_hold", "ack_hold"):
            payload = {"token": payload, "next_rung": act["rung"]}
        ctx.set(port.payload, payload if name != "dump" else act["index"])

    def table_row(self, number, cycle, launched):
        """The row of a slot, as of the start of ``cycle``."""
        slot = self.model.slots[number]
        live = slot.live and slot.accepted < cycle
        return slot.row | {"live": live, "phase": slot.phase, "launched": launched} if slot.row else {"live": 0}

    def table_set(self, number):
        return [{**(entry or EMPTY), "valid": int(entry is not None)} for entry in self.model.sets[number]]

    async def run(self, ctx):
        ctx.set(self.dut.node, NODE)
        ctx.set(self.dut.incarnation, INCARNATION)
        for _ in range(RESETS):
            ctx.set(self.reset, 1)
            await ctx.tick()
            ctx.set(self.reset, 0)
            await self.live(ctx)

    async def live(self, ctx):
        """From one reset to the next."""
        dut, draw, system = self.dut, self.draw, self.system
        self.model = model = Model(system)
        self.time = 0
        names = ("finish", "repeat_hold", "ack_hold", "cancel", *(("sweep",) if system.ni.sweep else ()), "dump")
        stepped = -CHOSEN - 1
        offered: dict = {}
        pipe: deque = deque([None] * CHOSEN)
        rows: deque = deque([(None, None)])
        ready_at, busy, ahead = draw.randint(2, 9), 0.5 if system.ni.sweep else 0.9, 0
        # Until the NI is ready nothing is initialised: what the tables show may be anything.
        for cycle in range(CYCLES):
            if cycle % 50 == 49:
                busy = draw.choice((0.0, 0.3, 0.9, 1.0))
            ready, nearly = cycle >= ready_at, cycle + 1 >= ready_at
            advance = draw.random() < 0.9
            quiesce = draw.random() < 0.5
            ctx.set(dut.time_base, self.time)
            ctx.set(dut.advance, advance)
            ctx.set(dut.ready, ready)
            ctx.set(dut.nearly, nearly)
            ctx.set(dut.quiesce, quiesce)

            # Accept and judge.  A judgement of this very cycle is not in its rows.
            launched = [slot.launched for slot in model.slots]
            for slot in model.slots:
                if ready and not slot.live and cycle >= slot.ended + REST and draw.random() < 0.15:
                    slot.row, slot.live, slot.accepted = self.row(cycle), True, cycle
                    slot.phase, slot.launched = slot.phase ^ 1, False
            judged, ahead = ahead, draw.randrange(system.ni.slots)
            slot = model.slots[judged]
            known = slot.live and slot.accepted + ACCEPT_JUDGED <= cycle
            judges = known and draw.random() < 0.2
            ctx.set(dut.judged.valid, judges)
            # An entry of a slot that is not live is judged, too.
            ctx.set(dut.judged.any, judges or (not known and cycle % 3 == 0))
            ctx.set(dut.judged.slot, judged)
            ctx.set(dut.judged.ahead, ahead)
            slot.launched |= judges

            # Choose: a message, or a request.
            chosen = None
            if draw.random() < busy:
                drop = draw.choice([Drop.NONE] * 6 + [Drop.SOURCE, Drop.INCARNATION, Drop.CRC])
                chosen = {"kind": "message", "header": self.header(), "drop": drop}
                ctx.set(dut.arrival.header, chosen["header"])
            ctx.set(dut.arrival.complete, chosen is not None)
            ctx.set(dut.arrival.slot, chosen["header"]["slot"] if chosen else 0)
            for name in names:
                # The last of the requests comes to its turn, too.
                if name not in offered and draw.random() < (0.05 if system.ni.sweep and name != "sweep" else 0.3):
                    offered[name] = self.request(name)
                    self.offer(ctx, name, offered[name])
                ctx.set(getattr(dut, name).valid, name in offered)
            for name in names:
                allowed = ready and chosen is None
                if name == "dump":
                    allowed = allowed and quiesce and pipe == deque([None] * CHOSEN)
                if name == "sweep":
                    # A step is chosen; the handshake comes with the last.
                    if allowed and name in offered and cycle > stepped + CHOSEN:
                        chosen, stepped = {"kind": name} | offered[name], cycle
                    continue
                assert ctx.get(getattr(dut, name).ready) == allowed, (cycle, name)
                if allowed and name in offered:
                    chosen = {"kind": name} | offered.pop(name)
            look, look_set = ctx.get(dut.look.slot), ctx.get(dut.look_set.set)

            # What is known of the act of the next cycle.
            soon = pipe[1]
            if soon and soon["kind"] == "message":
                drop, stale = soon["drop"], soon["drop"] == Drop.INCARNATION and soon["header"]["kind"] == Kind.SEND
                ctx.set(dut.arrival.sound, drop == Drop.NONE)
                ctx.set(dut.arrival.drop, drop)
                ctx.set(dut.arrival.nameless, drop == Drop.CRC)
                if system.ni.reject:
                    ctx.set(dut.arrival.stale, stale)

            # Act.
            act = pipe.popleft()
            room = [int(draw.random() < 0.8) for _ in dut.verdict]
            ladder, queue = draw.random() < 0.8, draw.random() < 0.8
            for verdict, own in zip(dut.verdict, room, strict=True):
                ctx.set(verdict.room, own)
            ctx.set(dut.push.room, ladder)
            ctx.set(dut.reply.ready, queue)
            if system.ni.acceptance:
                model.refusal = draw.choice((0, 0, 0, 1, 2, 3))
                ctx.set(dut.refusal, model.refusal)
            before = [self.table_set(number) for number in range(system.ni.sets)]
            snapshot: dict[str, Any] = {"live": draw.randrange(2)}
            if look < system.ni.slots:
                snapshot = self.table_row(look, cycle, launched[look])
            dumped = self.dumped(act, cycle) if act and act["kind"] == "dump" else None
            expected = model.act(act, cycle, self.time, ready, room, ladder)
            self.check(ctx, cycle, act, expected, queue, dumped)
            if system.ni.sweep:
                assert ctx.get(dut.sweep.ready) == model.swept, (cycle, act)
                if model.swept:
                    self.seen.add(("swept", 0))
                    offered.pop("sweep", None)
                if expected.pop("waits", False):
                    self.seen.add(("waits", 0))
            self.update(ctx, cycle, before)
            assert ready or not ctx.get(dut.update.entry.valid), cycle
            entries = before[look_set]
            for way, entry in enumerate(entries):
                if entry != self.table_set(look_set)[way] or not ready:
                    entries[way] = self.uid() | {"valid": draw.randrange(2)}
                    entries[way].pop("try")
            if not ready:
                snapshot = self.row(cycle) | {"live": 1, "phase": 0, "launched": 0}
            rows.append((snapshot, entries))
            pipe.append(chosen)
            self.time += advance
            await ctx.tick()
            row, entries = rows.popleft()
            if row:
                ctx.set(dut.look.row, row)
                ctx.set(dut.look_set.entries, entries)

    def dumped(self, act, cycle):
        ni, index = self.system.ni, act["index"]
        number = index & (1 << (ni.slots - 1).bit_length()) - 1
        live = self.model.live(number, cycle)
        row = self.model.slots[number].row if live else {}
        shown = (row["generation"], row["destination"]) if live else None
        return live, shown, self.table_set(index & ni.sets - 1)

    def check(self, ctx, cycle, act, expected, queue, dumped):
        dut, where = self.dut, (cycle, act, expected)
        shown = ctx.get(dut.shown)
        assert (Event(shown["event"]), shown["detail"]) == (expected["event"], expected["detail"]), where
        self.seen.add((expected["event"], expected["detail"] if expected["event"] == Event.DROP else 0))
        peer = None
        if act and (expected["ended"] or expected["repeat"]):
            peer = self.model.slots[act.get("header", act)["slot"]].row["destination"]
        assert {name: shown[name] for name, _ in shown.shape()} == self.whose(act, expected, peer), where
        message = act is not None and act["kind"] == "message"
        for fifo, verdict in enumerate(dut.verdict):
            commits = expected["commit"] is not None and fifo_of(self.system, expected["commit"]) == fifo
            assert ctx.get(verdict.commit) == commits, where
            assert ctx.get(verdict.reject) == (message and not commits), where
            if fifo == 0 and self.system.ni.acceptance:
                assert ctx.get(dut.delivered) == commits, where
            if commits and act:
                header = act["header"]
                record = ctx.get(verdict.record)
                assert (record["source"], record["cls"], record["length"]) == (
                    header["source"], header["class"], header["length"]
                ), where  # fmt: skip
        self.stream(ctx, dut.reply, expected["reply"], where)
        assert ctx.get(dut.lost_reply) == (expected["reply"] is not None and not queue), where
        self.stream(ctx, dut.repeat, expected["repeat"], where)
        self.stream(ctx, dut.ended, expected["ended"], where, "entry")
        assert ctx.get(dut.end.valid) == (expected["ended"] is not None), where
        if expected["ended"]:
            slot = expected["ended"]["slot"]
            assert (ctx.get(dut.end.slot), ctx.get(dut.end.phase)) == (slot, self.model.slots[slot].phase), where
            assert ctx.get(dut.end.launched) == self.model.slots[slot].launched, where
        push = expected["push"]
        self.stream(ctx, dut.push, push and push[0], where, "token")
        if push:
            _, rung, time = push
            delay = self.system.delays[rung]
            assert ctx.get(dut.push.rung) == rung, where
            assert ctx.get(dut.push.eve) == (time + delay - 1) % (1 << self.system.time_bits), where
        assert ctx.get(dut.dumped_valid) == (dumped is not None), where
        if dumped:
            live, row, entries = dumped
            found = ctx.get(dut.dumped)
            assert found["live"] == live, where
            assert row is None or (found["generation"], found["destination"]) == row, where
            for own, entry in zip(found["entries"], entries, strict=True):
                assert own["valid"] == entry["valid"], where
                assert not entry["valid"] or all(own[name] == entry[name] for name in EMPTY), where

    def update(self, ctx, cycle, before):
        """What goes to the receive table is what has changed."""
        port, ways, joins, leaves = self.dut.update, 0, 0, 0
        for number, entries in enumerate(before):
            for way, entry in enumerate(self.table_set(number)):
                if entry == entries[way]:
                    continue
                assert ctx.get(port.set) == number, cycle
                shown = ctx.get(port.entry)
                assert shown["valid"] == entry["valid"], cycle
                assert not entry["valid"] or all(shown[name] == entry[name] for name in EMPTY), cycle
                ways |= 1 << way
                joins, leaves = int(not entries[way]["valid"]), int(not entry["valid"])
        assert (ctx.get(port.ways), ctx.get(port.joins), ctx.get(port.leaves)) == (ways, joins, leaves), cycle

    def whose(self, act, expected, peer):
        """The event with whose datagram it is about."""
        shown = {name: expected[name] for name in ("event", "detail")}
        dropped = expected["event"] == Event.DROP
        if expected["event"] == Event.NOTHING or (dropped and expected["detail"] in (Drop.RESETTING, Drop.CRC)):
            return shown | dict.fromkeys(("source", "incarnation", "slot", "generation", "peer", "length"), 0)
        uid = act.get("header", act)
        shown |= {name: uid[name] for name in ("slot", "generation")} | {"length": 0}
        if "source" not in uid:
            return shown | {"source": NODE, "incarnation": INCARNATION, "peer": peer}
        kind = uid.get("kind") if act["kind"] == "message" else None
        answers = kind in (Kind.ACK, Kind.REJECT)
        shown |= {"source": uid["destination"] if answers else uid["source"], "incarnation": uid["incarnation"]}
        return shown | {"peer": uid["source"], "length": uid["length"] if kind in (Kind.SEND, Kind.BE) else 0}

    def stream(self, ctx, port, expected, where, payload="payload"):
        assert ctx.get(port.valid) == (expected is not None), where
        if expected is not None:
            found = ctx.get(getattr(port, payload))
            assert {name: found[name] for name, _ in found.shape()} == {
                name: expected[name] for name, _ in found.shape()
            }, where


BACK_TO_BACK = [
    ({"sets": 2, "ways": 2, "slots": 4}, {}),
    ({"sets": 1, "ways": 1, "slots": 3, "reject": True}, {}),
    ({"sets": 1, "ways": 3, "slots": 4, "control_classes": 2}, {"ack_limit": 8}),
    ({"sets": 2, "ways": 1, "slots": 2, "reject": True}, {"ack_limit": 9, "backoff_steps": 0}),
    ({"sets": 2, "ways": 3, "slots": 4, "sweep": True, "acceptance": True, "reject": True}, {}),
    ({"sets": 1, "ways": 1, "slots": 4, "sweep": True}, {"ack_limit": 8}),
    ({"sets": 1, "ways": 2, "slots": 4, "acceptance": True, "control_classes": 1}, {}),
]


@pytest.mark.parametrize("ni, timers", but([], BACK_TO_BACK, push=[BACK_TO_BACK[4]]))
def test_back_to_back(ni, timers):
    system = System.make(
        topology={"kind": "crossbar", "nodes": 3},
        wire={"generation_bits": 1, "mtu": 8},
        ni=ni,
        timers={"wrap_guard": 0, **timers},
        workload={"min_length": 4, "max_length": 8, "retry_limit": 1},
    )
    bench = Bench(system, 1)
    simulator = Simulator(ResetInserter(bench.reset)(bench.dut))
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench.run)
    simulator.run()
    events = {event for event, _ in bench.seen}
    wanted = {
        Event.DELIVER, Event.DUPLICATE, Event.DELIVER_BE, Event.RELEASE, Event.ACK_IGNORED, Event.FORGOTTEN,
        Event.FORGET_IGNORED, Event.GIVE_UP, Event.REPEAT, Event.ACK_REPEAT, Event.DROP,
    }  # fmt: skip
    assert wanted <= events
    reasons = {detail for event, detail in bench.seen if event == Event.DROP}
    assert {Drop.RESETTING, Drop.TABLE_FULL, Drop.DELIVER_FULL, Drop.TIMER_FULL} <= reasons
    if system.ni.acceptance:
        assert {*ACCEPTANCE} - {Drop.NONE} <= reasons
    if system.ni.sweep:
        assert {Event.SWEPT, "swept", "waits"} <= events
