"""The tables of `docs/design/flow-model.md`: ``python -m tests.model.flow_table`` writes them.

With ``--run`` it prints a search of every system, and every counter-example, instead.
"""

from tests.helpers import ROOT
from tests.model.flow_ladder import ladder
from tests.model.flow_network import Flow
from tests.model.flow_rules import Setting
from tests.model.flow_settings import FULL, QUICK, SHOWN, TRIALS
from tests.model.graph import Result, explore
from tests.model.trials import Model


def search(setting: Setting, *, progress: bool = True, limit: int = 5_000_000) -> Result:
    """Every state of a system; with ``progress`` every goal is then looked at."""
    return explore(Flow(setting), progress=progress, limit=limit)


FLOW = Model(
    name="flow",
    page=ROOT / "docs" / "design" / "flow-model.md",
    quick=QUICK,
    full=FULL,
    trials=TRIALS,
    shown=lambda trial: (trial.rule, trial.how) in SHOWN,
    search=search,
    ladder=ladder,
)

if __name__ == "__main__":
    FLOW.main()
