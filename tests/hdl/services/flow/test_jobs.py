"""Jobs: when each begins and acts, and what it does then (contract of flow, section 9)."""

from functools import cache

import pytest

from lethe.services.flow.jobs import PAUSE, Jobs
from lethe.services.flow.layouts import EntryKind, Layouts, Operation
from lethe.services.flow.layouts import PeerState as Out
from lethe.spec.events import Cause, Status
from lethe.spec.services.flow import CODE_BITS, CONTROL_WORDS, Code, In
from tests.hdl.services.flow.blocks import counted, layouts, passing, placed, stream
from tests.helpers.simulated import Simulated

PORTS, FIRST = 4, 5
#: A probe begins in the cycle after a node for it is there.
SOUGHT = FIRST + 1
UP, CONNECTING = {"state": Out.UP, "round": 2}, {"state": Out.CONNECTING, "round": 2}
OPEN, MUTE = ({"state": state, "known": 1, "boot": 9, "round": 4} for state in (In.OPEN, In.MUTE))
BOOT = 77
SET = {"set.valid": 1, "set.payload": {"code": 0, "index": 1}}
#: Settings that differ from each other in everything.
OTHERS = ({"code": 2, "index": 1, "value": 9}, {"code": 1, "index": 2, "value": 6}, {"code": 0, "index": 15})


def control(code: Code, **fields) -> int:
    """A control word."""
    value, at = int(code), CODE_BITS
    for name, bits in CONTROL_WORDS[code]:
        value |= fields.get(name, 0) << at
        at += bits
    return value


def heard(code: Code, **fields) -> dict:
    """From node 1, that it fills the word register."""
    return {"heard": 1, "heard_whole": 1, "heard_source": 1, "heard_incarnation": 3, "word": control(code, **fields)}


@cache
def block() -> tuple[Layouts, Simulated]:
    of = layouts()
    return of, Simulated(Jobs(of, of.system.top_port))


class Bench:
    """The block, whose tables show what they are set to; ``seen`` holds in each cycle the outputs that are not 0."""

    def __init__(self, **inputs):
        self.of, self.simulated = block()
        self.block = self.simulated.block
        self.inputs: dict = {"ready": 1, "node": 0, "boot": BOOT, "control_idle": 1, "control_open": 1} | inputs
        numbers = self.inputs.get("numbers", {})
        base = numbers.get("base", 0)
        self.inputs["numbers"] = stream(**{"next": base, "limit": base} | numbers)
        ends = self.inputs.get("ends", {})
        self.inputs["ends"] = {
            "place": base % 16,
            **{name: placed(ends.get(name, 0), base) for name in ("done", "void")},
        }
        if found := self.inputs.get("accept_in", {}):
            first = found.get("expected", 0)
            kept = {name: placed(found.get(name, 0), first) for name in ("present", "filled")}
            self.inputs["accept_in"] = found | kept
        self.seen: list[dict] = []
        self.shown = [
            name
            for name, member in self.block.signature.members.items()
            if member.is_port and member.flow.name == "Out" and name not in ("job_peer", "notice_code", "notice_index")
        ]

    def play(self, cycles: int, events=(), *, first: int = 0) -> "Bench":
        """Runs; ``events``: cycle → inputs from then on; outputs are seen from cycle ``first`` on."""

        async def process(ctx):
            self.ctx = ctx
            self.set(**self.inputs)
            for cycle in range(cycles):
                self.set(**dict(events).get(cycle, {}))
                if cycle >= first:
                    self.seen.append(self._outputs(ctx))
                await ctx.tick()

        self.simulated.run(process)
        return self

    def _outputs(self, ctx) -> dict:
        block = self.block
        found = {name: ctx.get(getattr(block, name)) for name in self.shown}
        # What a peer's out and in are after it, as far as it writes them.
        out, in_ = block.peer_out.shape().members, block.peer_in.shape().members
        found["out_word"] = dict.fromkeys(out, 0) | {name: ctx.get(block.peer_out)[name] for name in out}
        found["in_word"] = {name: ctx.get(block.peer_in)[name] for name in in_}
        for name in ("state", "wanted", "map"):
            if found[f"{name}_writes"]:
                found["out_word"][name] = found[f"{name}_word"]
        if found["kept_writes"]:
            found["out_word"] |= {name: found["kept_word"][name] for name in block.kept_word.shape().members}
        if found["learns"]:
            found["out_word"]["incarnation"] = found["learnt"]
        if found["unblocks"]:
            found["out_word"]["blocked"] = 0
        if found["source_writes"]:
            found["in_word"] |= {name: found["source_word"][name] for name in block.source_word.shape().members}
        if found["source_knows"]:
            found["in_word"] |= {name: found["source_known"][name] for name in block.source_known.shape().members}
        found["out_writes"] = any(
            found[name] for name in ("state_writes", "wanted_writes", "kept_writes", "map_writes", "learns", "unblocks")
        )
        found["in_writes"] = found["source_writes"] or found["source_knows"]
        for name in ("completion", "set"):
            found[f"{name}.ready"] = ctx.get(getattr(block, name).ready)
        for name in ("cancel", "sweep"):
            found[f"{name}.valid"] = ctx.get(getattr(block, name).valid)
        if ctx.get(block.operation) != Operation.NOTHING:
            index = ctx.get(block.notice_index)
            found["notice"] = Operation(ctx.get(block.operation)), ctx.get(block.notice_code), index
        return found

    def set(self, **values) -> None:
        for name, value in values.items():
            port = self.block
            for part in name.split("."):
                port = getattr(port, part)
            self.ctx.set(port, value)

    def when(self, name: str) -> list[int]:
        """The cycles in which an output is not 0."""
        return [cycle for cycle, found in enumerate(self.seen) if found.get(name)]

    def notices(self) -> list[tuple]:
        return [(cycle, *found["notice"]) for cycle, found in enumerate(self.seen) if "notice" in found]


def acted(inputs: dict, **acts: int) -> int:
    """The cycle in which a job acts that begins in cycle 0; ``data``, ``credit``: when such a thing acts."""
    events: dict[int, dict] = {cycle: {} for cycle in range(-4, 20)}
    for name, cycle in acts.items():
        steps = {"data": {"accept_reads": 3, "mark_soon": 2, "accept_now": 0}, "credit": {"credit_soon": 2}}[name]
        for signal, before in steps.items():
            events[cycle - before][signal] = 1
            events[cycle - before + 1][signal] = 0
    return Bench(**inputs).play(14, events).when("job_acts")[0]


@pytest.mark.parametrize(
    ("acts", "plain", "void"),
    [
        ({}, 5, 5), ({"data": 2}, 5, 5), ({"data": 3}, 5, 6), ({"data": 4}, 5, 7), ({"data": 5}, 6, 8),
        ({"data": 6}, 7, 9), ({"data": 7}, 5, 5), ({"credit": 4}, 5, 5), ({"credit": 5}, 6, 6), ({"credit": 6}, 5, 5),
    ],
)  # fmt: skip
def test_a_job_acts_five_cycles_after_it_has_begun(acts, plain, void):
    """Later beside a data message in that cycle or the next, or a credit; a VOID not soon after a data message."""
    assert acted(SET, **acts) == plain
    assert acted(heard(Code.VOID, map=1) | {"peer_in": OPEN}, **acts) == void


def test_a_void_and_a_flush_wait_for_the_journal():
    given = heard(Code.VOID, map=1) | {"peer_in": OPEN, "journal_high": 1}
    assert Bench(**given).play(14, {9: {"journal_high": 0}}).when("run_enters") == [10]
    given["journal_high"] = 0
    assert Bench(**given).play(14, {FIRST: {"journal_high": 1}}).when("run_enters") == [FIRST]


def test_jobs_begin_in_turn():
    """The first cycle behind a job is the next one's; completion, control, set, send, and again."""
    ending = {"completion.valid": 1, "completion.payload": {"slot": 7}}
    bench = Bench(**SET, **heard(Code.MAP), **ending, tell_valid=1, tell={"code": Code.PONG, "node": 1}).play(34)
    every = FIRST + 1
    assert bench.when("completion.ready") == [0, 4 * every]
    assert bench.when("shown_heard") == [every + FIRST]
    assert bench.when("set.ready") == [2 * every + FIRST]
    assert bench.when("tell_pops") == [3 * every]


@pytest.mark.parametrize(
    ("code", "index", "value", "state", "error", "does"),
    [
        (0, 2, 0, {}, 0, "unbinds"), (1, 2, 6, {"set_bound": 0}, 0, "binds"), (1, 2, 6, {"set_bound": 1}, 1, ""),
        (1, 2, 6, {"listed": 0b0100}, 2, ""),
        (1, 2, 6, {"listed": 0b0100, "fetches": 1, "fetches_last": 1, "fetched_port": 2}, 0, "binds_if_last"),
        (1, 2, 6, {"listed": 0b0100, "fetches": 1, "fetches_last": 1, "fetched_port": 1}, 2, ""),
        (1, 2, 5, {}, 3, ""), (2, 3, 7, {}, 0, "limits"),
        (3, 3, 7, {}, 0, "send_limits"), (0, 4, 0, {}, 3, ""), (3, 15, 0, {}, 3, ""),
    ],
)  # fmt: skip
@pytest.mark.parametrize("later", [{}, *({"set.payload": other} for other in OTHERS), {"set.valid": 0}])
def test_set(code, index, value, state, error, does, later):
    """A job sets what the host offered as it began, even if the host changes or withdraws the offer meanwhile."""
    offered = {"set.valid": 1, "set.payload": {"code": code, "index": index, "value": value}}
    bench = Bench(**state, **offered).play(6, {1: later})
    found = bench.seen[FIRST]
    assert found["set.ready"] and found["answer"].valid and found["answer"].error == error
    wants = [name for name in ("binds", "binds_if_last", "unbinds", "limits", "send_limits") if found[name]]
    assert wants == [does] * bool(does) and found["names"] == (code == 1 and error != 1)


def _ends(found: dict) -> tuple[int, int]:
    word = found["job_ends_word"]
    return counted(word.done, word.place), counted(word.void, word.place)


def _base(found: dict) -> int:
    return found["job_numbers"].above * 16 + found["job_ends_word"].place


def completed(status=Status.ACCEPTED, cause=Cause.NONE, slot: int = 1, cycles: int = 16, **state) -> Bench:
    """A datagram of number 252 of stream (1, 2), socket 3, or of a control slot, has ended."""
    row = {"node": 1, "index": 2, "q": 3, "seq": 252, "length": 20}
    ending = {"slot": slot, "destination": 1, "tag": 5, "status": status, "cause": cause}
    inputs = {"ended_row": row, "peer_out": UP, "completion.valid": 1, "completion.payload": ending} | state
    # From the next cycle on the slot is another datagram's.
    other = {"ended_row": {}, "ended_control": {}, "ended_credit": 0, "ended_carried": 0}
    bench = Bench(**{"peer_in": OPEN} | inputs).play(cycles, {1: {"completion.valid": 0} | other})
    assert bench.when("row_ends") == [1]
    return bench


def test_a_message_is_finished():
    """The lowest two numbers were, and now the third is; what it carried is told."""
    numbers, ends = {"next": 4, "limit": 9, "base": 252}, {"done": 0b0110, "void": 0b1001}
    state = {"numbers": numbers, "ends": ends, "ended_carried": 1, "ended_credit": 7, "accept_in": {"told": 3}}
    found = completed(**state).seen[FIRST]
    assert found["job_completes"] and found["job_leaves"] and found["lives_less"]
    assert (found["job_q"], found["job_length"], found["job_completion"].tag) == (3, 20, 5)
    assert found["job_numbers_writes"] and found["job_numbers"].open == 5 and found["job_numbers"].next == 4
    assert _base(found) == 255 and found["job_numbers"].left == 5
    assert found["job_ends_writes"] and _ends(found) == (0, 1)
    assert found["out_writes"] and found["out_word"]["heard"] and found["out_word"]["state"] == Out.UP
    assert found["job_in_writes"] and found["job_in_word"].told == 7 and found["job_in_at"] == 1 << 2 | 3
    assert "notice" not in found


def test_a_credit_that_is_not_ahead_is_not_told():
    for credit in (3, 2):
        found = completed(ended_carried=1, ended_credit=credit, accept_in={"told": 3}).seen[FIRST]
        assert not found["job_in_writes"] or found["job_in_word"].told == 3
    assert not completed(ended_carried=0, ended_credit=7, accept_in={"told": 3}).when("job_in_writes")
    closed = {"peer_in": {"state": In.CLOSED, "known": 1}, "accept_in": {"told": 3}}
    assert not completed(ended_carried=1, ended_credit=7, **closed).when("job_in_writes")
    assert not controlled(Code.WINDOW, ended_carried=1, **closed).when("job_in_writes")


def test_a_message_is_void():
    """VOID of its stream is marked; the peer leaves if it has restarted; of another peer nothing is kept."""
    found = completed(Status.UNKNOWN, Cause.CANCELLED, numbers={"base": 250}, ends={"done": 2}).seen[FIRST]
    assert found["job_ends_writes"] and not found["job_numbers_writes"]
    assert _ends(found) == (2, 4)
    assert found["notice"] == (Operation.MARK, Code.VOID, 2) and not found["out_writes"]
    found = completed(Status.UNKNOWN, Cause.CANCELLED, numbers={"base": 236}).seen[FIRST]
    assert not found["job_ends_writes"] and "notice" not in found
    found = completed(Status.REJECTED, Cause.RESTARTED, numbers={"base": 252}).seen[FIRST]
    assert found["out_word"]["state"] == Out.LEAVING and found["notices"]
    found = completed(Status.UNKNOWN, Cause.CANCELLED, peer_out={"state": Out.LEAVING}).seen[FIRST]
    assert not found["job_ends_writes"] and "notice" not in found and not found["out_writes"]


def controlled(code: Code, status=Status.ACCEPTED, cause=Cause.NONE, probe: int = 0, **state) -> Bench:
    row = {"code": code, "node": 1, "index": 2, "base": 252, "map": placed(0b101, 252), "credit": 7, "probe": probe}
    return completed(status, cause, slot=7, ended_control=row, **state)


def test_control_that_arrived():
    found = controlled(Code.VOID, numbers={"base": 252, "next": 255, "limit": 255}, ends={"void": 0b111}).seen[FIRST]
    assert found["notice"] == (Operation.ARRIVED, Code.VOID, 2) and found["lives_less"] and found["out_word"]["heard"]
    assert found["job_numbers"].open == 2 and _base(found) == 253
    assert _ends(found) == (0b10, 0b01)
    found = controlled(Code.WINDOW, ended_carried=1).seen[FIRST]
    assert found["notice"] == (Operation.ARRIVED, Code.WINDOW, 2)
    assert found["job_in_word"].told == 7 and found["job_in_writes"] and not found["lives_less"]
    assert not controlled(Code.WINDOW, ended_carried=0).when("job_in_writes")


@pytest.mark.parametrize(
    ("code", "operation", "leaves", "mutes"),
    [
        (Code.PING, Operation.ARRIVED, True, False), (Code.PONG, Operation.ARRIVED, False, False),
        (Code.MAP, Operation.REPEAT, False, True), (Code.WINDOW, Operation.REPEAT, False, True),
        (Code.VOID, Operation.ARRIVED, True, False),
    ],
)  # fmt: skip
def test_control_that_ended_otherwise(code, operation, leaves, mutes):
    """A peer that does not answer leaves, a source that does not becomes mute; but not if it was cancelled."""
    found = controlled(code, Status.UNKNOWN, Cause.RETRY_LIMIT, peer_in=OPEN).seen[FIRST]
    assert found["notice"][:2] == (operation, code)
    assert (found["out_writes"] and found["out_word"]["state"] == Out.LEAVING, found["in_writes"]) == (leaves, mutes)
    if mutes:
        assert found["in_word"]["state"] == In.MUTE
    found = controlled(code, Status.UNKNOWN, Cause.CANCELLED, peer_in=OPEN).seen[FIRST]
    assert found["notice"][:2] == (operation, code) and not found["state_writes"] and not found["in_writes"]


@pytest.mark.parametrize("code", [Code.PING, Code.VOID])
def test_a_peer_that_has_accepted_something_meanwhile_stays(code):
    """A VOID is told again; a peer that has restarted leaves in any case."""
    again = Operation.REPEAT if code == Code.VOID else Operation.ARRIVED
    out = UP | {"heard": 1, "asked": 1}
    found = controlled(code, Status.UNKNOWN, Cause.RETRY_LIMIT, peer_out=out).seen[FIRST]
    assert found["notice"][:2] == (again, code) and not found["state_writes"]
    assert found["out_word"]["heard"] and found["out_word"]["asked"] == (code == Code.VOID)
    found = controlled(code, Status.REJECTED, Cause.RESTARTED, peer_out=out).seen[FIRST]
    assert found["out_word"]["state"] == Out.LEAVING


def test_a_ping_of_the_probe_is_none_of_the_watch():
    found = controlled(Code.PING, Status.UNKNOWN, Cause.CANCELLED, probe=1, peer_out=UP | {"asked": 1}).seen[FIRST]
    assert found["out_word"]["asked"]


@pytest.mark.parametrize(
    ("given", "state", "writes"),
    [
        (heard(Code.PONG, round=2, boot=BOOT, own=6), {"peer_out": CONNECTING}, {"state": Out.UP, "pong": 1}),
        (heard(Code.PONG, round=3, boot=BOOT, own=6), {"peer_out": CONNECTING}, None),
        (heard(Code.PONG, round=2, boot=BOOT + 1, own=6), {"peer_out": CONNECTING}, None),
        (heard(Code.PONG, round=2, boot=BOOT, own=6), {"peer_out": CONNECTING | {"pong": 1}}, None),
        (
            heard(Code.PONG, round=2, boot=BOOT, own=6),
            {"peer_out": UP, "peer_life": {"known": 1, "boot": 6}},
            {"state": Out.UP, "heard": 1},
        ),
        (
            heard(Code.PONG, round=2, boot=BOOT, own=6),
            {"peer_out": UP, "peer_life": {"known": 1, "boot": 5}},
            {"state": Out.LEAVING, "map": 0},
        ),
        (heard(Code.GONE, round=2, boot=BOOT), {"peer_out": CONNECTING}, {"state": Out.LEAVING}),
        (heard(Code.GONE, round=2, boot=BOOT), {"peer_out": {"state": Out.ERROR, "round": 2}}, None),
        (heard(Code.MAP, map=0b1010), {"peer_out": UP}, {"state": Out.UP, "map": 0b1010}),
        (heard(Code.MAP, map=0b1010), {"peer_out": {"state": Out.DOWN}}, None),
    ],
)
def test_words_that_change_a_peer(given, state, writes):
    found = Bench(**given, **state).play(6).seen[FIRST]
    assert bool(found["out_writes"]) == (writes is not None)
    for name, value in (writes or {}).items():
        assert found["out_word"][name] == value
    assert found["heard_done"] and found["shown_heard"] and not found["control_ignored"]


def test_a_pong_of_another_life_begins_a_sweep():
    given = heard(Code.PONG, round=2, boot=BOOT, own=6) | {"peer_out": CONNECTING}
    bench = Bench(**given, peer_life={"known": 1, "boot": 5}).play(20, {6: {"heard": 0}, 9: {"sweep.ready": 1}})
    assert bench.when("sweep.valid") == [6, 7, 8, 9] and bench.when("run_enters") == []
    (cycle,) = bench.when("life_writes")
    found = bench.seen[cycle]
    assert cycle == 10 + FIRST and found["life_word"].boot == 6 and found["out_word"]["incarnation"] == 3
    assert found["out_word"]["state"] == Out.UP and found["notices"]


def test_a_window_may_raise_a_limit():
    """Of a port that there is and a peer that hears; unless it does the numbers stay."""
    for state, index, raises in (
        (UP, 1, True), (CONNECTING, 1, True), ({"state": Out.LEAVING}, 1, False), (UP, 4, False),
    ):  # fmt: skip
        given = heard(Code.WINDOW, credit=12, index=index) | {"peer_out": state}
        found = Bench(**given, numbers={"limit": 11, "next": 5, "asked": 1, "base": 4}).play(6).seen[FIRST]
        assert bool(found["job_raises"]) == bool(found["job_numbers_writes"]) == raises
        word = found["job_numbers"]
        assert not raises or (found["job_credit"], word.left, word.asked, word.open) == (12, 6, 1, 1)


@pytest.mark.parametrize("base", [254, 255, 0, 1, 14, 15, 239, 240])
def test_numbers_that_will_not_come(base):
    """Those of the map within the window are passed over; those that follow go to the drainer."""
    numbers = {(base + k) % 256 for k in (0, 1, 3)}
    expected, filled = 255, 0b1100
    there = {(expected + k) % 256 for k in (2, 3)}
    given = heard(Code.VOID, base=base, map=placed(0b1011, base), index=3) | {"peer_in": OPEN}
    stream = {"expected": expected, "present": 0b1100, "filled": filled, "told": 5}
    found, then = Bench(**given, accept_in=stream).play(7).seen[FIRST:]
    all_of_them, passed = there | {n for n in numbers if (n - expected) % 256 < 16}, 0
    while (expected + passed) % 256 in all_of_them:
        passed += 1
    after = (expected + passed) % 256
    word = found["job_in_word"]
    assert found["job_in_writes"] and (word.expected, counted(word.filled, after)) == (after, filled >> passed)
    assert counted(word.present, after) == sum(1 << k for k in range(16) if (after + k) % 256 in all_of_them)
    assert bool(found["run_enters"]) == (passed > 0)
    if passed:
        entry = found["run_entry"]
        given = entry.kind, entry.index, entry.seq, entry.count
        assert given == (EntryKind.RUN, 3, expected, passing(passed, expected))
        assert counted(entry.mask, expected) == filled
    assert found["void_acts"] and found["notice"] == (Operation.MARK, Code.WINDOW, 3)
    assert bool(then["void_marks"]) == ((5 - after) % 256 not in range(2, 128))


@pytest.mark.parametrize(
    ("given", "changes"),
    [
        (heard(Code.PONG, round=2, boot=BOOT, own=6), ("state_writes", "learns", "life_writes", "notices")),
        (heard(Code.GONE, round=2, boot=BOOT), ("state_writes", "leaves", "notices")),
        (heard(Code.MAP, map=0b1010), ("map_writes", "notices")),
        (heard(Code.WINDOW, credit=3, index=1), ("job_numbers_writes", "job_raises")),
    ],
)
def test_a_peer_that_an_attempt_connects_to_in_the_cycle_before(given, changes):
    """It was DOWN when it was looked at, and hears by now; otherwise nothing changes."""
    state = {"peer_out": {"state": Out.DOWN, "round": 2}, "numbers": {"limit": 2}}
    for sought in (0, 1):
        events = {FIRST: {"was_sought": sought}, FIRST + 1: {"was_sought": 0}}
        found = Bench(**given, **state).play(7, events).seen[FIRST]
        assert [bool(found[name]) for name in changes] == [bool(sought)] * len(changes)
        assert found["heard_done"]


def test_a_probe_finds_what_an_attempt_has_changed_in_the_cycle_before():
    """Of a source that is mute: a PING, if its peer is CONNECTING and wanted by now, and has sent no PONG."""
    for sought, out, code in (
        (0, {}, Code.MAP), (1, {}, Code.PING), (1, CONNECTING, Code.PING), (1, CONNECTING | {"pong": 1}, Code.MAP),
        (1, {"state": Out.LEAVING}, Code.MAP), (1, {"state": Out.ERROR}, Code.MAP),
    ):  # fmt: skip
        events = {SOUGHT: {"was_sought": sought}, SOUGHT + 1: {"was_sought": 0}}
        *_, found, later = Bench(peer_in=MUTE, candidates=0b10, peer_out=out).play(SOUGHT + 2, events).seen
        assert found["tells"] and bool(found["lives_more"]) == bool(found["wanted_writes"]) == (code == Code.PING)
        assert found["told_row"].code == code and later["told_word"] & 0x1F == code


@pytest.mark.parametrize(
    ("given", "why"),
    [({"word": 0}, "code 0"), ({"word": 7}, "no code"), ({"heard_whole": 0}, "length or class")],
)
def test_words_that_say_nothing(given, why):
    found = Bench(**heard(Code.MAP, map=1) | given, peer_out=UP).play(6).seen[FIRST]
    assert found["control_ignored"] and not found["out_writes"] and not found["control_shown"], why
    assert not found["extra_shown"]


def test_a_task_opens_a_source():
    """What is parked goes, with a number more; no row carries anything; a sweep; then it is open, and is told so."""
    given = heard(Code.PING, round=1, boot=10) | {"peer_in": OPEN, "peer_life": {"known": 1, "boot": 9}}
    stream = {"expected": 7, "present": 0b10110, "filled": 0b10100, "told": 9}
    bench = Bench(**given, accept_in=stream, looked_node=1).play(70, {6: {"heard": 0}, 55: {"sweep.ready": 1}})
    assert bench.seen[FIRST]["in_word"]["state"] == In.CLOSED and bench.seen[FIRST]["in_writes"]
    every, flushed = FIRST + 1, bench.when("run_enters")
    assert flushed == [FIRST + every * (1 + i) for i in range(PORTS)]
    for i, cycle in enumerate(flushed):
        entry, new = bench.seen[cycle]["run_entry"], bench.seen[cycle]["job_in_word"]
        mask = counted(entry.mask, 7)
        assert (entry.kind, entry.source, entry.index) == (EntryKind.FLUSH, 1, i)
        assert (entry.seq, entry.count, mask) == (7, 6, 0b10100)
        assert bench.seen[cycle]["job_in_writes"] and (new.expected, new.present, new.filled, new.told) == (0, 0, 0, 2)
    rows = bench.when("row_forgets")
    assert rows == list(range(flushed[-1] + every, flushed[-1] + every + bench.of.slots))
    assert [bench.seen[cycle]["forgotten_slot"] for cycle in rows] == list(range(bench.of.slots))
    assert bench.when("told_forgets") == rows[:1]
    assert bench.when("sweep.valid") == list(range(rows[-1] + 1, 56))
    (first, operation, code, _), (second, *_, then, _) = bench.notices()
    assert (first, second) == (56 + FIRST, 57 + FIRST) and (operation, code, then) == (
        Operation.MARK,
        Code.PONG,
        Code.MAP,
    )
    opened = bench.seen[first]
    assert opened["in_writes"] and opened["life_writes"] and opened["life_word"].boot == 10
    word = opened["in_word"]
    names = ("state", "boot", "round", "incarnation", "known")
    assert tuple(word[name] for name in names) == (In.OPEN, 10, 1, 3, 1)


@pytest.mark.parametrize(
    ("out", "life", "leaves", "pong"),
    [
        (UP, 9, True, None), (UP, 10, False, None), (CONNECTING | {"pong": 1}, 9, False, 0),
        (CONNECTING | {"pong": 1}, 10, False, None), ({"state": Out.LEAVING}, 9, False, None),
    ],
)  # fmt: skip
def test_a_source_that_opens_in_another_life_is_no_peer_of_before(out, life, leaves, pong):
    """What this node had with the peer as a sender is over: it leaves UP, and a PONG of before does not count."""
    given = heard(Code.PING, round=1, boot=10) | {"peer_in": OPEN, "peer_life": {"known": 1, "boot": life}}
    bench = Bench(**given, peer_out=out).play(70, {6: {"heard": 0, "sweep.ready": 1}})
    opened = next(found for found in bench.seen if found["life_writes"])
    assert bool(opened["leaves"]) == leaves and opened["in_word"]["state"] == In.OPEN
    if leaves:
        assert opened["out_word"]["state"] == Out.LEAVING and opened["notices"]
    else:
        assert not opened["state_writes"] and bool(opened["kept_writes"]) == (pong is not None)
    if pong is not None:
        assert opened["out_word"]["pong"] == pong and opened["out_word"]["state"] == Out.CONNECTING


def test_a_ping_once_more():
    """PONG is marked; a source that was mute revives, with MAP and each WINDOW that waits; an older one is ignored."""
    bench = Bench(**heard(Code.PING, round=4, boot=9), peer_in=MUTE).play(14, {11: {"heard": 0}})
    assert bench.notices() == [
        (5, Operation.MARK, Code.PONG, bench.notices()[0][3]), (6, Operation.MARK, Code.MAP, bench.notices()[1][3]),
        *((7 + i, Operation.REVIVE, Code.WINDOW, i) for i in range(PORTS)),
    ]  # fmt: skip
    assert bench.seen[FIRST]["in_word"]["state"] == In.OPEN and bench.when("heard_done") == [10]
    bench = Bench(**heard(Code.PING, round=3, boot=9), peer_in=MUTE).play(8)
    assert bench.notices() == [] and bench.when("in_writes") == []


def test_a_probe_fails_and_is_made_again_after_a_pause():
    """PING until the peer is up, each one wanted less; with MAP a source that is mute is asked."""
    state = {"peer_out": CONNECTING | {"wanted": 5}, "candidates": 0b10}
    row = {"code": Code.PING, "node": 1, "probe": 1}
    ending = {
        "completion.valid": 1,
        "completion.payload": {"slot": 7, "status": Status.UNKNOWN, "cause": Cause.RETRY_LIMIT},
    }
    bench = Bench(**state, ended_control=row).play(200, {20: ending, 21: {"completion.valid": 0}})
    first, second = bench.when("tells")
    assert first == SOUGHT and second == 20 + FIRST + 2 * PAUSE + 1 + FIRST
    assert bench.seen[first]["out_word"]["wanted"] == 4 and bench.seen[first]["lives_more"]
    assert bench.seen[first]["told_row"].probe and bench.seen[first]["told_row"].node == 1
    assert bench.seen[first + 1]["told_word"] == control(Code.PING, round=2, boot=BOOT, paths=1)
    *_, found, later = Bench(peer_in=MUTE, candidates=0b10, congested=0b110).play(SOUGHT + 2).seen
    assert later["told_word"] == control(Code.MAP, map=0b110) and found["tells"] and not found["lives_more"]


def test_a_probe_begins_for_a_node_that_is_sought_no_more():
    """Whoever was there in the cycle before: it is for node 0 then, and the last one probed stays."""
    nobody = Bench(peer_in=MUTE, candidates=0b10).play(SOUGHT + 2, {1: {"candidates": 0}})
    assert nobody.when("tells") == [SOUGHT] and nobody.seen[SOUGHT]["told_row"].node == 0
    nobody = Bench(candidates=0b10).play(20, {1: {"candidates": 0}, 2: {"candidates": 0b11}, 8: {"peer_in": MUTE}})
    assert [nobody.seen[cycle]["told_row"].node for cycle in nobody.when("tells")] == [0]


def test_nothing_is_told_while_the_node_is_silent():
    state = {"peer_out": CONNECTING | {"wanted": 1}, "candidates": 0b10, "tell_valid": 1, "tell": {"code": Code.PONG}}
    bench = Bench(**state, silent=1).play(30, {12: {"silent": 0}})
    assert bench.when("job_acts")[0] == 12 + FIRST


@pytest.mark.parametrize(
    ("code", "state", "sends", "otherwise"),
    [
        (Code.PONG, {"peer_in": OPEN}, control(Code.PONG, round=4, boot=9, paths=1, own=BOOT), Operation.CLEAN),
        (
            Code.PONG,
            {"peer_in": {"known": 1, "boot": 9, "round": 4}},
            control(Code.GONE, round=4, boot=9),
            Operation.CLEAN,
        ),
        (Code.PONG, {}, None, Operation.CLEAN),
        (Code.MAP, {"peer_in": OPEN, "congested": 5}, control(Code.MAP, map=5), Operation.CLEAN),
        (Code.MAP, {"peer_in": MUTE}, None, Operation.WAIT),
        (Code.MAP, {}, None, Operation.CLEAN),
        (
            Code.WINDOW,
            {"peer_in": OPEN, "accept_in": {"expected": 250, "told": 254}, "job_room": 3},
            control(Code.WINDOW, index=2, credit=255, ack=250),
            Operation.CLEAN,
        ),
        (
            Code.WINDOW,
            {"peer_in": OPEN, "accept_in": {"expected": 250, "told": 255}, "job_room": 3},
            None,
            Operation.CLEAN,
        ),
        (Code.WINDOW, {"peer_in": MUTE}, None, Operation.WAIT),
        (
            Code.VOID,
            {"peer_out": UP, "numbers": {"base": 8}, "ends": {"void": 6}},
            control(Code.VOID, index=2, base=8, map=6 << 8),
            Operation.CLEAN,
        ),
        (Code.VOID, {"peer_out": UP}, None, Operation.CLEAN),
        (Code.VOID, {"peer_out": CONNECTING, "ends": {"void": 6}}, None, Operation.CLEAN),
        (Code.PING, {"peer_out": UP}, control(Code.PING, round=2, boot=BOOT, paths=1), Operation.CLEAN),
        (Code.PING, {"peer_out": CONNECTING}, None, Operation.CLEAN),
    ],
)
def test_send(code, state, sends, otherwise):
    tell = {"tell_valid": 1, "tell": {"code": code, "node": 1, "index": 2}}
    bench = Bench(**state, **tell).play(7, {1: {"tell_valid": 0, "tell": {}}})
    found = bench.seen[FIRST]
    assert bench.when("tell_pops") == [0]
    assert found["notice"][:2] == (otherwise if sends is None else Operation.FLY, code)
    assert bool(found["tells"]) == (sends is not None)
    if sends is not None:
        assert bench.seen[FIRST + 1]["told_word"] == sends
    assert bool(found["lives_more"]) == (sends is not None and code in (Code.VOID, Code.PING))
    assert bool(found["out_word"]["asked"]) == (sends is not None and code == Code.PING)


def test_cancels_of_a_peer_that_leaves():
    """Slots in turn; one that counts for it is offered until it is taken, and meanwhile none is looked at."""
    state = {"fled": 1, "looked_leaves": 1, "looked_life": {"slot": 2, "generation": 6}}
    bench = Bench(**state).play(40, {12: {"looked_lives": 1}, 24: {"cancel.ready": 1, "fled": 0}})
    assert bench.when("job_acts") == [5, 11, 17] and bench.when("cancel.valid") == list(range(18, 25))
    assert [bench.seen[cycle]["looked_slot"] for cycle in (5, 11, 17)] == [0, 1, 2]


@pytest.mark.parametrize("of_stored", [0, 1])
@pytest.mark.parametrize("of_accepted", [0, 1])
def test_a_cancel_of_a_slot_that_is_accepted_in_this_cycle(of_stored, of_accepted):
    """It is the one who the datagram goes to that counts, and not who the one before went to."""
    state = {"fled": 1, "looked_lives": 1, "looked_leaves": of_stored, "renewed_leaves": of_accepted, "renewed": 1}
    assert bool(Bench(**state).play(8).when("cancel.valid")) == bool(of_accepted)


@pytest.mark.parametrize("renewed", [0, 1])
def test_a_task_forgets_what_is_accepted_for_its_node_in_this_cycle(renewed):
    given = heard(Code.PING, round=1, boot=10) | {"peer_in": OPEN, "peer_life": {"known": 1, "boot": 9}}
    given |= {"looked_node": 1, "control_row": {"node": 0}, "renewed": renewed}
    bench = Bench(**given).play(70, {6: {"heard": 0}})
    assert bool(bench.when("row_forgets")) == (not renewed)


def walk(state: dict, *, ages: bool = False, cycles: int = 90, dirty: bool = False) -> Bench:
    """A walk by the counter of watches (or of ages), and for a dirty map; of node 0, the own one, then of node 1."""
    of = layouts()
    begins = of.system.flow_silence if ages else of.system.flow.watch
    events = {begins - 1: {"turns": int(dirty), "troubled": int(ages)}, begins: {"turns": 0, "troubled": 0}}
    return Bench(**state).play(begins + cycles, events, first=begins)


@pytest.mark.parametrize(
    ("out", "lives", "marks"),
    [
        (UP, 1, True), (UP | {"blocked": 1}, 0, True), (UP, 0, False), (UP | {"heard": 1}, 1, False),
        (CONNECTING, 1, False), (UP | {"asked": 1}, 1, False),
    ],
)  # fmt: skip
def test_a_watch(out, lives, marks):
    bench = walk({"peer_out": out, "peer_lives": lives})
    assert bench.when("job_acts") == [5, 11]
    assert [cycle for cycle, *_ in bench.notices()] == [11] * marks
    found = bench.seen[11]
    assert found["out_writes"] and not found["out_word"]["heard"] and not found["out_word"]["blocked"]
    assert not bench.seen[5]["out_writes"]


def test_what_is_heard_while_a_ping_is_under_way_counts_until_it_ends():
    found = walk({"peer_out": UP | {"heard": 1, "asked": 1, "blocked": 1}}).seen[11]
    assert found["out_word"]["heard"] and found["out_word"]["asked"] and not found["out_word"]["blocked"]


def test_a_watch_finds_what_an_attempt_has_changed_in_the_cycle_before():
    """A PING after all, and the map in a step of its own."""
    for moved in (0, 1):
        of = layouts()
        wraps = of.system.flow.watch - 1
        events = {
            wraps: {"turns": 1}, wraps + 1: {"turns": 0},
            wraps + 12: {"was_moved": moved}, wraps + 13: {"was_moved": 0},
        }  # fmt: skip
        bench = Bench(peer_out=UP, peer_in=OPEN).play(wraps + 20, events, first=wraps + 1)
        codes = [(cycle, code) for cycle, _, code, _ in bench.notices()]
        assert codes == ([(11, Code.PING), (12, Code.MAP)] if moved else [(11, Code.MAP)])


@pytest.mark.parametrize(
    ("nothing_used", "used_moves", "stuck", "tells"),
    [(0, 0, 0, True), (0, 1, 0, False), (0, 1, 1, True), (1, 0, 0, False), (1, 1, 1, False)],
)
def test_a_watch_tells_the_map_if_no_cell_moves(nothing_used, used_moves, stuck, tells):
    """None of the node, or none of a congested port; and some cell is used."""
    state = {"nothing_used": nothing_used, "used_moves": used_moves, "stuck": stuck}
    assert [code for _, _, code, _ in walk({"peer_in": OPEN} | state).notices()] == [Code.MAP] * tells


def test_a_source_that_stays_mute_is_closed():
    found = walk({"peer_in": MUTE | {"age": 6}}).seen[11]
    assert found["in_word"]["age"] == 7 and found["in_word"]["state"] == In.MUTE
    bench = walk({"peer_in": MUTE | {"age": 7}})
    assert bench.seen[11]["in_word"]["state"] == In.CLOSED and len(bench.when("run_enters")) == PORTS


def test_what_ages():
    found = walk({"peer_out": {"state": Out.LEAVING}}, ages=True).seen[11]
    assert found["out_word"]["state"] == Out.ERROR
    assert not walk({"peer_out": {"state": Out.LEAVING}, "peer_lives": 1}, ages=True).seen[11]["out_writes"]
    found = walk({"peer_out": {"state": Out.ERROR}}, ages=True).seen[11]
    assert found["out_word"]["state"] == Out.ERROR and found["out_word"]["age"]


@pytest.mark.parametrize("dirty", [False, True])
def test_a_peer_is_connected_to_again(dirty):
    """Its streams begin again, one a step; if one had numbers that were not finished it is wanted; MAP comes last."""
    error = {"state": Out.ERROR, "age": 1, "round": 255}
    state = {"peer_out": error, "numbers": {"next": 5, "base": 5}, "peer_in": OPEN}
    of = layouts()
    step = of.system.flow_silence + 11 + 3  # the third step of the second job: port 1
    bench = Bench(**state)
    wraps = of.system.flow_silence - 1
    bench.play(
        wraps + 24,
        {
            wraps: {"troubled": 1, "turns": int(dirty)}, wraps + 1: {"troubled": 0, "turns": 0},
            step - 1: {"numbers": stream(next=6, base=5)}, step: {"numbers": stream(next=5, base=5)},
        },
    )  # fmt: skip
    first = wraps + 1 + 11
    found = bench.seen[first]["out_word"]
    assert (found["state"], found["round"], found["pong"]) == (Out.CONNECTING, 0, 0)
    writes = bench.when("job_numbers_writes")
    assert writes == list(range(first + 1, first + 1 + PORTS)) == bench.when("job_ends_writes")
    assert [bench.seen[cycle]["job_at"] for cycle in writes] == [1 << 2 | i for i in range(PORTS)]
    assert all(bench.seen[cycle]["job_numbers"].left == 2 for cycle in writes)
    # Two cycles before each step its stream is asked for.
    assert [bench.seen[cycle - 2]["job_stream"] for cycle in writes] == [1 << 2 | i for i in range(PORTS)]
    wanted = {cycle: bench.seen[cycle]["out_word"]["wanted"] for cycle in writes}
    assert wanted == dict.fromkeys(writes, 0) | {step - 1: 7}
    assert [cycle for cycle in writes if bench.seen[cycle]["wanted_some"]] == [step - 1]
    assert [(cycle, code) for cycle, _, code, _ in bench.notices()] == [(first + 1 + PORTS, Code.MAP)] * dirty


def test_a_job_acts_in_its_steps_only():
    """A step that has to wait, here for a credit, leaves the cycle to attempts."""
    events = {8: {"credit_soon": 1}, 9: {"credit_soon": 0}, 11: {"heard": 0}}
    bench = Bench(**heard(Code.PING, round=4, boot=9), peer_in=MUTE).play(16, events)
    assert bench.when("job_acts") == [5, 6, 7, 8, 9, 11]


def test_a_dirty_map_is_told_to_every_source():
    bench = Bench(peer_in=OPEN, node=1).play(20, {0: {"turns": 1}, 1: {"turns": 0}})
    assert [(cycle, code) for cycle, _, code, _ in bench.notices()] == [(1 + FIRST, Code.MAP)]
    assert [found["jobs_idle"] for found in bench.seen[:14]] == [1, *[0] * 12, 1]


@pytest.mark.parametrize("again", range(1, 5))
def test_a_map_that_turns_while_a_walk_begins_is_told_once_more(again):
    """The walk begins in cycle 1, and is for what turned before; another one follows."""
    events: dict[int, dict] = {cycle: {"turns": int(cycle in (0, again))} for cycle in range(7)}
    bench = Bench(peer_in=OPEN, node=1).play(60, events)
    assert [code for _, _, code, _ in bench.notices()] == [Code.MAP] * 2
