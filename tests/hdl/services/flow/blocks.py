"""What the tests of flow's blocks share: layouts, and numbers of streams."""

from lethe.services.flow.layouts import Layouts
from lethe.spec.ports import HostPort
from tests.helpers.rtl_flow_bench import flow_system


def layouts(**sections) -> Layouts:
    """Of a pair of nodes with four ports of four cells; other keys as given."""
    system = flow_system(**sections)
    return Layouts(system, HostPort.of_ni(system))


def placed(bits: int, lowest: int) -> int:
    """16 bits that are counted from number ``lowest`` on, each at its number mod 16."""
    return sum(1 << (lowest + k) % 16 for k in range(16) if bits >> k & 1)


def counted(bits: int, lowest: int) -> int:
    """The other way round."""
    return sum((bits >> (lowest + k) % 16 & 1) << k for k in range(16))


def passing(count: int, first: int) -> int:
    """How the journal has it that ``count`` numbers pass, from ``first`` on: the place behind them, and a 1."""
    return 16 | (first + count) % 16 if count else 0


def stream(*, next: int = 0, limit: int = 0, base: int = 0, asked: int = 0) -> dict:
    """The numbers of an out stream."""
    left, opened = (limit - next) % 256, (next - base) % 256
    stuck = left == 0 or opened > 15
    kept = {"next": next, "left": left, "open": opened, "limit": limit % 64, "asked": asked}
    return kept | {"stuck": stuck, "above": base // 16}
