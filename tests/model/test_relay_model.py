"""Messages that outlive the nodes they pass: every small system holds, and each rule is needed, or said not to be.

``pytest -s`` prints states, seconds and counter-examples; so does ``scripts/model relay``.
"""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.helpers.tiers import but
from tests.model.graph import explore
from tests.model.relay_ladder import ladder
from tests.model.relay_network import Relay, State
from tests.model.relay_rules import DATA, LINK, Rules, Setting, Stream
from tests.model.relay_settings import FULL, QUICK, SHOWN, TRIALS
from tests.model.relay_table import RELAY

RULE = re.compile(r"\bM\d+\b")


@pytest.mark.parametrize("name", but(RELAY.few(), QUICK))
def test_relay_holds(name):
    RELAY.holds(name)


@pytest.mark.full
@pytest.mark.parametrize("name", FULL)
def test_relay_holds_on_larger_systems(name):
    RELAY.holds(name)


@pytest.mark.full
@pytest.mark.parametrize("name", [*QUICK, *FULL])
def test_relay_holds_without_depths(name):
    """Nor with what M26 and M27 do for all records and neighbours of a promoted node; a trial is the short form."""
    setting, _, _ = (QUICK | FULL)[name]
    result = RELAY.search(replace(setting, without=frozenset(("M24", "M26 all", "M27 all"))))
    assert result.violation is None, ladder(result.path, result.violation, setting)


@pytest.mark.parametrize("trial", RELAY.tried(), ids=lambda trial: f"{trial.rule}-{trial.how}".replace(" ", "-"))
def test_without_a_rule(trial):
    RELAY.breaks(trial)


@pytest.mark.full
@pytest.mark.parametrize("setting", RELAY.others(), ids=range(len(RELAY.others())))
def test_with_all_rules_the_same_system_holds(setting):
    """What breaks is the rule's doing, not the system's."""
    assert RELAY.search(setting).violation is None


def test_every_rule_has_its_row_and_its_place_in_the_code():
    rules = set(re.findall(r"\*\*(M\d+)\*\*", RELAY.page.read_text(encoding="utf-8")))
    assert rules == {trial.rule for trial in TRIALS} == {f"M{number}" for number in range(1, len(rules) + 1)}
    code = "".join((Path(__file__).parent / f"relay_{part}.py").read_text() for part in ("rules", "network"))
    assert rules <= set(RULE.findall(code))
    kept = set(re.findall(r'keeps\("(M[^"]*)"\)', code))
    assert kept == {name for trial in TRIALS for name in trial.without}, "a rule that no trial takes away, or no rule"


def test_every_property_breaks_somewhere():
    """A property that nothing can break says nothing."""
    RELAY.every_property_breaks("L3")


def test_a_message_that_goes_round_is_found():
    """L3: as by a relay that returns what it should pass on."""

    class Returns(Rules):
        def done(self, work, node, hop):
            self.down(work, node, LINK, hop.stream, hop.index, flag=True)

    relay = Relay(Setting())
    relay.rules = Returns(relay.setting)
    result = explore(relay)
    assert result.violation is not None and result.violation.broken == "L1"
    relay.goals = lambda start: [goal for goal in Relay.goals(relay, start) if goal.broken == "L3"]
    result = explore(relay)
    assert result.violation is not None and result.violation.broken == "L3"


def test_the_page_is_fresh():
    RELAY.is_fresh()
    assert len(SHOWN) >= 10


def test_a_ladder_names_what_happened():
    found = RELAY.found(next(trial for trial in TRIALS if trial.without == ("M27",)))
    assert found.splitlines() == [
        "  1  0: GIVE message 0",
        "  2  1: dies",
        "  3  0: notice: 1 is dead",
        "  4  5: LINK of message 0 from 0 arrives",
        "     L1: a message between two that live is never posted, or its slot is never free",
    ]


def test_a_mark_is_read_with_the_bits_of_a_uid():
    """The Post alone: uids come round, and one that follows the mark is never taken for an old one."""
    rules = Rules(Setting(messages=9, modulus=8, stride=5))
    now = Stream(given=3, expected=2)
    assert (rules.uid(now, 0), rules.uid(now, 1), rules.uid(now, 2)) == (0, 5, 2)
    assert rules.posted(now) == 5 and rules.before(now, 2) == 5 and rules.before(now, 0) == -1
    assert rules.below(now, 2) and rules.follows(now, 2) and not rules.told(now, 2)
    assert rules.below(now, 1) and not rules.follows(now, 1) and rules.told(now, 1)
    assert not rules.below(now._replace(expected=0), 1), "nothing is below NONE"
    again = Stream(given=5, expected=3, restart=3, incarnation=1)
    assert rules.posted(again) == -1 and rules.before(again, 3) == -1 and rules.uid(again, 3) == 0
    assert [rules.incarnation(again, index) for index in (-1, -2, 2, 3)] == [0, 1, 0, 1]


def test_what_no_node_can_reach_is_left_out():
    assert Relay(Setting(nodes=7, streams=((3, 0),), mortal=(1,), deaths=1)).involved == (0, 1, 3, 5)
    assert Relay(Setting(nodes=7, streams=((3, 4),), mortal=(0,), deaths=1)).involved == (0, 1, 2, 3, 4, 6)


def test_one_of_a_kind_is_under_way_and_the_dead_get_nothing():
    relay = Relay(Setting(eager=True))
    state = next(after for move, after in relay.successors(relay.start()) if move.event == "GIVE")
    assert isinstance(state, State)
    kinds = [relay.rules.hops[number].kind for number in state.net]
    assert kinds == [DATA]
    asked = next(after for move, after in relay.successors(state) if move.event == "WATCH")
    assert [move.event for move, _ in relay.successors(asked)] == ["ARRIVES", "ARRIVES"], "no second LINK"
    dead = relay.successors(state._replace(dead=1, net=()))
    assert "WATCH" not in {move.event for move, _ in dead}, "a LINK to the dead is lost, and changes nothing"


def test_a_system_too_large_is_refused():
    with pytest.raises(MemoryError, match="more than 50 states; make the setting smaller"):
        RELAY.search(Setting(eager=True), limit=50)
