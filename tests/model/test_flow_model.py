"""One stream of flow, searched: it holds on every small system, and each of its rules is needed, or said not to be.

``pytest -s`` prints states, seconds and counter-examples; so does ``scripts/model flow``.
"""

import re
from pathlib import Path

import pytest

from tests.helpers.tiers import but
from tests.model.flow_network import Flow
from tests.model.flow_rules import ABSENT, VOID, Setting, Stream
from tests.model.flow_settings import FULL, QUICK, SHOWN, TRIALS
from tests.model.flow_table import FLOW
from tests.model.graph import explore

RULE = re.compile(r"\bF\d+\b")


@pytest.mark.parametrize("name", but(FLOW.few(), QUICK))
def test_a_stream_holds(name):
    FLOW.holds(name)


@pytest.mark.full
@pytest.mark.parametrize("name", FULL)
def test_a_stream_holds_on_larger_systems(name):
    FLOW.holds(name)


@pytest.mark.parametrize("trial", FLOW.tried(), ids=lambda trial: f"{trial.rule}-{trial.how}".replace(" ", "-"))
def test_without_a_rule(trial):
    FLOW.breaks(trial)


@pytest.mark.full
@pytest.mark.parametrize("setting", FLOW.others(), ids=range(len(FLOW.others())))
def test_with_all_rules_the_same_system_holds(setting):
    """What breaks is the rule's doing, not the system's."""
    assert FLOW.search(setting).violation is None


def test_every_rule_has_its_row_and_its_place_in_the_code():
    rules = set(re.findall(r"\*\*(F\d+)\*\*", FLOW.page.read_text(encoding="utf-8")))
    assert rules == {trial.rule for trial in TRIALS} == {f"F{number}" for number in range(1, len(rules) + 1)}
    code = "".join((Path(__file__).parent / f"flow_{part}.py").read_text() for part in ("rules", "network"))
    assert rules <= set(RULE.findall(code))
    kept = set(re.findall(r'keeps\("(F[^"]*)"\)', code))
    kinds = {"DATA", "VOID", "PING", "PONG", "WINDOW", "MAP"}
    taken = {name for trial in TRIALS for name in trial.without}
    unknown = {name for name in taken - kept if name.split()[-1] not in kinds}
    assert kept <= taken and not unknown, "a rule that no trial takes away, or a name that means nothing"


def test_every_property_breaks_somewhere():
    """A property that nothing can break says nothing."""
    FLOW.every_property_breaks("L3")


def test_a_void_that_is_never_told_is_found():
    """L3: as by a sender that never sends a VOID."""

    class Mute(Stream):
        def to_void(self, a):
            return ()

    flow = Flow(Setting(cancel=True, reader=False))
    flow.stream = Mute(flow.setting)
    result = explore(flow)
    assert result.violation is not None and result.violation.broken == "L3"


def test_the_page_is_fresh():
    FLOW.is_fresh()
    assert len(SHOWN) >= 6


def test_a_ladder_names_what_happened():
    found = FLOW.found(next(trial for trial in TRIALS if trial.rule == "F21"))
    assert found.splitlines() == [
        "  1  A: SEND PING",
        "  2  B: PING arrives (PONG)",
        "  3  B: closes the source",
        "     L2: does not drain, although nothing new comes",
    ]


def test_a_mark_moves_over_what_has_no_gap():
    """The receiver alone: numbers come round, and a mark never jumps."""
    stream = Stream(Setting(window=3, modulus=8, cells=3))
    b = stream.start(0, silent=False)._replace(expected=7)
    b = stream.placed(b, 9 % 8)
    assert (b.expected, b.window, b.queue) == (7, (ABSENT, "d"), 0)
    b, taken = stream.voided(b, (8 % 8,))
    assert taken == [1] and (b.expected, b.window, b.queue) == (7, (VOID, "d"), 0)
    b = stream.placed(b, 7)
    assert (b.expected, b.window, b.queue) == (10, (ABSENT, ABSENT), 2)


def test_a_system_too_large_is_refused():
    with pytest.raises(MemoryError, match="more than 50 states; make the setting smaller"):
        FLOW.search(Setting(), limit=50)
