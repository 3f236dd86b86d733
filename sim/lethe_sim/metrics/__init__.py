"""What a run achieved, as one long table (run, metric, value, unit), from its events as they come.

`places` says where in the fabric something happened, `account` counts it, `table` makes the rows.  A run that is
simulated (`Account`) and a trace (`of_trace`) give the same rows.
"""

from .account import Account
from .table import METRICS, Metric, of_trace

__all__ = ["METRICS", "Account", "Metric", "of_trace"]
