"""The tables of `docs/design/relay-model.md`: ``python -m tests.model.relay_table`` writes them.

With ``--run`` it prints a search of every system, and every counter-example, instead.
"""

from tests.helpers import ROOT
from tests.model.relay_ladder import ladder
from tests.model.relay_network import Relay
from tests.model.relay_settings import FULL, QUICK, SHOWN, TRIALS
from tests.model.trials import Model

RELAY = Model(
    name="relay",
    page=ROOT / "docs" / "design" / "relay-model.md",
    quick=QUICK,
    full=FULL,
    trials=TRIALS,
    shown=lambda trial: (trial.rule, trial.how) in SHOWN,
    system=Relay,
    ladder=ladder,
)

if __name__ == "__main__":
    RELAY.main()
