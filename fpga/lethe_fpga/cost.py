"""What a bitstream costs and what makes it slow, by block of the design, out of what the tools write."""

import re
from collections import Counter
from dataclasses import dataclass
from typing import Any

#: Cells of a netlist of Yosys: the column they count in and how much.  On an ECP5 a carry cell has two LUTs, a small
#: RAM four; on an iCE40 the carry chain is beside the LUTs.
COLUMNS = {
    "LUT4": ("lut", 1),
    "CCU2C": ("lut", 2),
    "TRELLIS_DPR16X4": ("lut", 4),
    "TRELLIS_FF": ("ff", 1),
    "DP16KD": ("ram", 1),
    "PDPW16KD": ("ram", 1),
    "SB_LUT4": ("lut", 1),
    "SB_RAM40_4K": ("ram", 1),
}

# The board's top and the system are no news to anybody; an NI is all in its core.
_PLAIN = re.compile(r"^selftest(\.|$)(system(\.|$))?")


@dataclass(frozen=True, kw_only=True)
class Path:
    """The slowest path between two flip-flops.

    ``blocks`` are those it goes through, in order; ``start`` and ``end`` the cells; times in ns, ``levels`` the cells
    between the two.
    """

    blocks: tuple[str, ...]
    start: str
    end: str
    levels: int
    logic: float
    routing: float

    def __str__(self) -> str:
        return " → ".join(self.blocks)


@dataclass(frozen=True, kw_only=True)
class Share:
    """What all blocks of one kind take together: LUTs of four inputs, flip-flops, block RAMs."""

    block: str
    count: int
    lut: int
    ff: int
    ram: int


def scopes(netlist: dict[str, Any], top: str) -> frozenset[str]:
    """The blocks that were made one when Yosys flattened the design, by their full names."""
    return frozenset(name for name, cell in netlist["modules"][top]["cells"].items() if cell["type"] == "$scopeinfo")


def _column(kind: str) -> tuple[str, int] | None:
    return ("ff", 1) if kind.startswith("SB_DFF") else COLUMNS.get(kind)


def block(cell: str, known: frozenset[str], depth: int = 2) -> str:
    """The block that a cell is of, such as ``ni0.action`` or ``fabric.router2``; ``top`` if of none.

    ``depth`` is the number of names that a block has at most.
    """
    words = cell.split(".")
    while words and ".".join(words) not in known:
        words.pop()
    words = [word.split("$")[0] for word in _PLAIN.sub("", ".".join(words)).split(".") if word != "core"]
    return ".".join(words[:depth]) or "top"


def slowest(report: dict[str, Any], clock: str, known: frozenset[str], depth: int = 2) -> Path:
    """The critical path of ``clock`` in nextpnr's report."""
    edges = (f"posedge {clock}", f"negedge {clock}")
    path = next(p["path"] for p in report["critical_paths"] if p["from"] in edges and p["to"] in edges)
    cells = [path[0]["from"]["cell"], *(step["to"]["cell"] for step in path)]
    blocks = [block(cell, known, depth) for cell in cells]
    routing = sum(step["delay"] for step in path if step["type"] == "routing")
    return Path(
        blocks=tuple(b for i, b in enumerate(blocks) if i == 0 or b != blocks[i - 1]),
        start=cells[0],
        end=cells[-1],
        levels=sum(step["type"] == "logic" for step in path),
        logic=round(sum(step["delay"] for step in path) - routing, 3),
        routing=round(routing, 3),
    )


def cells(netlist: dict[str, Any], top: str, known: frozenset[str], depth: int = 2) -> dict[str, Counter[str]]:
    """The cells of the blocks of a netlist by type, those of one kind of block together (``ni.action``)."""
    found: dict[str, Counter[str]] = {}
    for name, cell in netlist["modules"][top]["cells"].items():
        if cell["type"] != "$scopeinfo":
            found.setdefault(_kind(block(name, known, depth)), Counter())[cell["type"]] += 1
    return found


def shares(netlist: dict[str, Any], top: str, known: frozenset[str]) -> tuple[Share, ...]:
    """What the blocks of a netlist take, those of one kind together (``ni.action``, ``fabric.link``), largest first."""
    taken: dict[str, Counter[str]] = {}
    for kind, types in cells(netlist, top, known).items():
        for cell, number in types.items():
            if counted := _column(cell):
                column, amount = counted
                taken.setdefault(kind, Counter())[column] += amount * number
    alike: dict[str, set[str]] = {}
    for name in known:
        alike.setdefault(_kind(block(name, known)), set()).add(block(name, known))
    found = [
        Share(block=kind, count=max(1, len(alike.get(kind, ()))), lut=c["lut"], ff=c["ff"], ram=c["ram"])
        for kind, c in taken.items()
    ]
    return tuple(sorted(found, key=lambda share: (-share.lut, -share.ff, share.block)))


def _kind(name: str) -> str:
    """The name without the numbers that tell blocks of one kind apart."""
    return re.sub(r"\d+(?=\.|$)", "", name)
