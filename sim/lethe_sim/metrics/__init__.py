"""What a run achieved, as one long table (run, metric, value, unit), from its events as they come.

`places` says where in the fabric something happened, `ledger` counts it, `table` makes the rows.  A run that is
simulated (`RunLedger`) and a trace (`of_trace`) give the same rows.
"""

from .ledger import RunLedger
from .table import METRICS, Metric, of_trace

__all__ = ["METRICS", "Metric", "RunLedger", "of_trace"]
