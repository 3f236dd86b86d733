"""The protocol, searched: it holds on every small system, and each of its rules is needed, or said not to be.

``pytest -s`` prints states, seconds and counter-examples; so does ``scripts/model``.
"""

import re
from pathlib import Path

import pytest

from tests.helpers import ROOT
from tests.helpers.tiers import but
from tests.model.protocol_rules import Setting
from tests.model.protocol_settings import FULL, QUICK, TRIALS
from tests.model.protocol_table import PROTOCOL

RULE = re.compile(r"\b[RNE]\d+\b")


@pytest.mark.parametrize("name", but(PROTOCOL.few(), QUICK))
def test_the_protocol_holds(name):
    PROTOCOL.holds(name)


@pytest.mark.full
@pytest.mark.parametrize("name", FULL)
def test_the_protocol_holds_on_larger_systems(name):
    PROTOCOL.holds(name)


@pytest.mark.parametrize("trial", PROTOCOL.tried(), ids=lambda trial: f"{trial.rule}-{trial.how}".replace(" ", "-"))
def test_without_a_rule(trial):
    PROTOCOL.breaks(trial)


@pytest.mark.full
@pytest.mark.parametrize("setting", PROTOCOL.others(), ids=range(len(PROTOCOL.others())))
def test_with_all_rules_the_same_system_holds(setting):
    """What breaks is the rule's doing, not the system's."""
    assert PROTOCOL.search(setting, progress=False).violation is None


def test_every_rule_has_its_row_and_its_place_in_the_code():
    text = (ROOT / "docs" / "design" / "protocol.md").read_text(encoding="utf-8")
    rules = set(re.findall(r"\*\*([RNE]\d+)\*\*", text))
    assert rules == {trial.rule for trial in TRIALS}
    assert len(rules) == 30 + 5 + 2
    code = "".join(
        (Path(__file__).parent / f"protocol_{part}.py").read_text() for part in ("rules", "network", "progress")
    )
    assert rules <= set(RULE.findall(code))


def test_the_page_is_fresh():
    PROTOCOL.is_fresh()


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
        PROTOCOL.search(Setting(), limit=50)
