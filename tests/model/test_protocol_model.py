"""The protocol, searched: it holds on every small system, and each of its rules is needed, or said not to be.

``pytest -s`` prints states, seconds and counter-examples; so does ``scripts/model``.
"""

import re
from pathlib import Path

import pytest

from tests.helpers import ROOT
from tests.model.protocol_ladder import ladder
from tests.model.protocol_rules import Setting
from tests.model.protocol_search import search
from tests.model.protocol_settings import FULL, QUICK, TRIALS
from tests.model.protocol_table import PROTOCOL

RULE = re.compile(r"\b[RNE]\d+\b")


def holds(name, setting, states, moves):
    result = search(setting)
    print(f"\n{name}: {result.states:,} states, {result.moves:,} moves, {result.seconds:.1f} s")
    assert result.violation is None, "\n" + ladder(result.path, result.violation, setting)
    assert (result.states, result.moves) == (states, moves), "the table of docs/design/model.md is stale"


@pytest.mark.parametrize("name", QUICK)
def test_the_protocol_holds(name):
    holds(name, *QUICK[name])


@pytest.mark.full
@pytest.mark.parametrize("name", FULL)
def test_the_protocol_holds_on_larger_systems(name):
    holds(name, *FULL[name])


@pytest.mark.parametrize("trial", TRIALS, ids=lambda trial: f"{trial.rule}-{trial.how}".replace(" ", "-"))
def test_without_a_rule(trial):
    """The counter-example has as many steps as the page says; where nothing breaks, everything was searched."""
    result = search(trial.changed)
    shown = ladder(result.path, result.violation, trial.changed)
    print(f"\nwithout {trial.rule}, {trial.how}: {result.states:,} states, {result.seconds:.1f} s\n{shown}")
    assert (result.violation.broken if result.violation else "", len(result.path)) == (trial.broken, trial.steps), shown
    assert trial.broken or trial.reason, "it must be said why nothing breaks"


SEARCHED = {setting for setting, _, _ in QUICK.values()}
#: The systems that break without a rule and are not searched above, each once, in the order of the trials.
OTHERS = [s for s in dict.fromkeys(trial.setting for trial in TRIALS if trial.broken) if s not in SEARCHED]


@pytest.mark.parametrize("setting", OTHERS, ids=range(len(OTHERS)))
def test_with_all_rules_the_same_system_holds(setting):
    """What breaks is the rule's doing, not the system's."""
    assert search(setting, progress=False).violation is None


def test_every_rule_has_its_row_and_its_place_in_the_code():
    text = (ROOT / "docs" / "design" / "protocol.md").read_text(encoding="utf-8")
    rules = set(re.findall(r"\*\*([RNE]\d+)\*\*", text))
    assert rules == {trial.rule for trial in TRIALS}
    assert len(rules) == 27 + 5 + 2
    code = "".join(
        (Path(__file__).parent / f"protocol_{part}.py").read_text() for part in ("rules", "network", "search")
    )
    assert rules <= set(RULE.findall(code))


def test_the_page_is_fresh():
    text = PROTOCOL.page.read_text(encoding="utf-8")
    assert PROTOCOL.refreshed(text) == text, "the page is stale; run python -m tests.model.protocol_table"


def test_a_ladder_names_what_happened():
    found = PROTOCOL.found(next(trial for trial in TRIALS if trial.rule == "N1"))
    assert found.splitlines() == [
        "  1  A: ACCEPT d0 for B (generation 0)",
        "  2  A: SEND d0 → to B",
        "  3  B: DELIVER d0 as one of generation 1, its reply is queued",
        "     S6: delivered under the UID of another datagram",
    ]


def test_a_system_too_large_is_refused():
    with pytest.raises(MemoryError, match="more than 50 states; make the setting smaller"):
        search(Setting(), limit=50)
