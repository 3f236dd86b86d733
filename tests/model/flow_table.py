"""The tables of `docs/design/flow-model.md`: ``python -m tests.model.flow_table`` writes them.

With ``--run`` it prints a search of every system, and every counter-example, instead.
"""

from tests.helpers import ROOT
from tests.model.flow_ladder import ladder
from tests.model.flow_network import Flow
from tests.model.flow_settings import FULL, QUICK, SHOWN, TRIALS
from tests.model.trials import Model

FLOW = Model(
    name="flow",
    page=ROOT / "docs" / "design" / "flow-model.md",
    quick=QUICK,
    full=FULL,
    trials=TRIALS,
    shown=lambda trial: (trial.rule, trial.how) in SHOWN,
    system=Flow,
    ladder=ladder,
)

if __name__ == "__main__":
    FLOW.main()
