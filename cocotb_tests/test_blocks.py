"""Single blocks, RTL and golden model in lockstep, under input that no good neighbour would give."""

import pytest

from lethe.spec.events import Cause, Drop, Event
from lethe_sim.lockstep.block_groups import (
    CYCLES,
    FICKLE_CYCLES,
    FICKLE_SEEDS,
    GROUPS,
    PATIENT_CYCLES,
    PATIENT_SEEDS,
    SEEDS,
    hold,
)
from tests.helpers.once import once
from tests.helpers.tiers import but

ROUTER = {event.name for event in Event if Event.FORWARD <= event <= Event.OVERLONG}
QUEUED = ROUTER - {Event.DISCARD_UP.name} | {Event.DISCARD_FULL.name}
LINK = {Event.LOST.name, Event.DEAD.name, Event.FLIP.name}
NI = {event.name for event in Event if event and event < Event.FORWARD and event != Event.DROP}
NI |= {f"DROP {drop.name}" for drop in Drop if drop}
# Those after SILENT are of flow.
NI |= {f"GIVE_UP {cause.name}" for cause in Cause if Cause.NONE < cause <= Cause.SILENT}
#: A deadline that is reached to the cycle; an Ack that is right but for its source; a repeat that is granted when its
#: slot holds a datagram which is sent once; messages of one flit that only their kind forbids; a quarantine with 3
#: and with 5 places that comes round.
NI |= {"DEADLINE TO THE CYCLE", "ACK OF ANOTHER NODE", "REPEAT OF WHAT IS SENT ONCE", "ONE FLIT SEND", "ONE FLIT BE"}
NI |= {"QUARANTINE COMES ROUND 3", "QUARANTINE COMES ROUND 5"}
#: Every number of heads that can ask for one output of a router with 8 ports, and of one with 12 that does not send
#: back; with 16 ports, in the long test.
CONTENTION = {f"{heads} of 8" for heads in range(1, 9)} | {f"{heads} of 12" for heads in range(1, 12)}
CONTENTION |= {Event.DISCARD_UP.name}
WIDEST = {f"{heads} of 16" for heads in range(1, 17)}
#: All that somebody can wait for, in routers with credits.
CREDITS = {"FORWARD", "credit", "full", "waits for an output", "waits for a credit"}
#: Tries that stay at 255.
NI |= {"REPEAT 255", "ACK_REPEAT 255"}
#: Payloads whose words come round; generators that have stopped; datagrams whose `last` is wrong in every way.
HOSTS = {"WORDS COME ROUND", "DONE", "GOOD", "BIT", "EARLY", "LATE", "TWICE", "ENDLESS"}
#: What hosts that agree on no tree bring about in few cycles; in the systems of the matrix there is the rest.
RELAYS = {event.name for event in Event if Event.RELAY_SEND <= event <= Event.RELAY_RESET}
RELAYS -= {"RELAY_DROPPED", "RELAY_OWED", "RELAY_UNTRACKED"}
FLOWS = {event.name for event in Event if Event.FLOW_SEND <= event <= Event.FLOW_RESET}
#: Groups of the long test.
LONG = {"flow", "more routers", "widest routers", "large pools"}
#: Groups that are always tried; those that are not long are tried with every push.
QUICK = {"small", "ni options"}
NIS = [name for name in GROUPS if name.startswith("ni")]


@pytest.fixture
def held(request, tmp_path_factory):
    """Runs a group, once in all workers."""

    def run(group: str) -> set[str]:
        again = f"pytest cocotb_tests/test_blocks.py -k 'test_block[{group}]' -m '' --seeds {{seeds}}"
        wanted = request.config.getoption("--seeds")

        def seen() -> list[str]:
            results = [hold(group, wanted or SEEDS[group], CYCLES[group], reproduce=again)]
            if cycles := PATIENT_CYCLES.get(group):
                results.append(hold(group, wanted or PATIENT_SEEDS, cycles, reproduce=again, patient=True))
            if cycles := FICKLE_CYCLES.get(group):
                results.append(hold(group, wanted or FICKLE_SEEDS, cycles, reproduce=again, fickle=True))
            for result in results:
                assert not result.report, result.report
            return sorted({name for result in results for name in result.seen})

        return set(once(tmp_path_factory, f"block {group}", seen))

    return run


@pytest.mark.parametrize("group", but(QUICK, GROUPS, push=GROUPS.keys() - LONG - QUICK))
def test_block(group, held):
    """Every output word in every cycle."""
    held(group)


@pytest.mark.parametrize(
    ("groups", "wanted"),
    [
        (["small"], LINK | HOSTS),
        pytest.param(["routers"], ROUTER, marks=pytest.mark.push),
        pytest.param(["queued routers"], QUEUED, marks=pytest.mark.push),
        pytest.param(["wide routers"], CONTENTION, marks=pytest.mark.push),
        pytest.param(["credit routers"], CREDITS, marks=pytest.mark.push),
        pytest.param(NIS, NI, marks=pytest.mark.push),
        pytest.param(["relay"], RELAYS, marks=pytest.mark.push),
        pytest.param(["widest routers"], WIDEST, marks=pytest.mark.full),
        pytest.param(["flow"], FLOWS, marks=pytest.mark.full),
    ],
    ids=[
        "links and hosts", "routers", "queued routers", "wide routers", "credit routers", "nis", "relay",
        "widest routers", "flow",
    ],
)  # fmt: skip
def test_nothing_is_missed(groups, wanted, held):
    """The input reaches every event, every reason for a drop and every corner named above.

    Else the agreement says little.
    """
    assert wanted <= {name for group in groups for name in held(group)}
