"""Single blocks, RTL and golden model in lockstep, under input that no good neighbour would give."""

import pytest

from lethe.spec.events import Drop, Event
from lethe_sim.lockstep.block_groups import GROUPS, hold

CYCLES = 3000

ROUTER = {event.name for event in Event if Event.FORWARD <= event <= Event.OVERLONG}
QUEUED = ROUTER - {Event.DISCARD_UP.name} | {Event.DISCARD_FULL.name}
LINK = {Event.LOST.name, Event.DEAD.name, Event.FLIP.name}
NI = {event.name for event in Event if event and event < Event.FORWARD and event != Event.DROP}
NI |= {f"DROP {drop.name}" for drop in Drop if drop}
NIS = [name for name in GROUPS if name.startswith("ni")]

_SEEN: dict[str, dict[str, int]] = {}


@pytest.fixture
def held(request):
    """Runs a group, once."""

    def run(group):
        if group not in _SEEN:
            again = f"pytest cocotb_tests/test_blocks.py -k 'test_block[{group}]' --seeds {{seeds}}"
            result = hold(group, request.config.getoption("--seeds") or 4, CYCLES, reproduce=again)
            assert not result.report, result.report
            _SEEN[group] = result.seen
        return _SEEN[group]

    return run


@pytest.mark.parametrize("group", GROUPS)
def test_block(group, held):
    """Every output word in every cycle."""
    held(group)


@pytest.mark.parametrize(
    ("groups", "wanted"),
    [(["small"], LINK), (["routers"], ROUTER), (["queued routers"], QUEUED), (NIS, NI)],
    ids=["links", "routers", "queued routers", "nis"],
)
def test_nothing_is_missed(groups, wanted, held):
    """The input reaches every event and every reason for a drop: else the agreement says little."""
    assert wanted <= {name for group in groups for name in held(group)}
