"""RTL and golden model side by side: every event, output and counter, every cycle.

`cosim` runs a whole system from outside the simulator; `Lockstep` is the comparison itself, for
benches that run inside it.
"""

from .cosim import CosimResult, cosim
from .simulators import ToolError

__all__ = ["CosimResult", "ToolError", "cosim"]
