"""The tables of `docs/design/model.md`: ``python -m tests.model.protocol_table`` writes them.

With ``--run`` it prints a search of every system, and every counter-example, instead.
"""

from tests.helpers import ROOT
from tests.model.protocol_ladder import ladder
from tests.model.protocol_progress import Fair
from tests.model.protocol_settings import FULL, QUICK, TRIALS
from tests.model.trials import Model

PROTOCOL = Model(
    name="the protocol",
    page=ROOT / "docs" / "design" / "model.md",
    quick=QUICK,
    full=FULL,
    trials=TRIALS,
    shown=lambda trial: trial.rule in ("R22", "R27", "R28", "R30", "E1") or trial.broken == "S7",
    system=Fair,
    ladder=ladder,
)

if __name__ == "__main__":
    PROTOCOL.main()
