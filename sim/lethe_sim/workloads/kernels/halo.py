"""Halo exchange: a stencil on a torus cut into blocks, whose rims go to the neighbours before each step."""

import math

import numpy as np

from ..kernel import Kernel, Program, add_placed, blocks, placed

WEST, EAST, NORTH, SOUTH = range(4)


class Halo(Kernel):
    """``size`` × ``size`` cells, ``steps`` of the five-point stencil; whole numbers mod 2^32, so nothing rounds away.

    The answer also has, for each node, what it received as rims, all steps together, each three times the one before:
    3 is odd, so no change of one step is lost mod 2^32, whatever the stencil makes of it.
    """

    def __init__(self, system):
        super().__init__(system)
        self.about = f"{self.steps} steps of a stencil on {self.size:,} × {self.size:,} cells"
        self.across = max(d for d in range(1, math.isqrt(self.nodes) + 1) if self.nodes % d == 0)
        self.down = self.nodes // self.across
        self.cells = self.chance.randint(1, 1 << 32, (self.size, self.size), dtype=np.uint32)
        self.columns, self.rows = blocks(self.size, self.across), blocks(self.size, self.down)

    def program(self) -> Program:
        mine = {node: self._block(self.cells, node) for node in range(self.nodes)}
        rims_seen = np.zeros((self.nodes, 4, self.size), np.uint32)
        for _ in range(self.steps):
            sent = []
            rims = np.zeros((self.nodes, 4, self.size), np.uint32)
            for node, block in mine.items():
                edges = {WEST: block[:, -1], EAST: block[:, 0], NORTH: block[-1], SOUTH: block[0]}
                for side, edge in edges.items():
                    # The last column is what the neighbour to the east has in its west.
                    other = self._neighbour(node, side)
                    if other == node:
                        rims[node, side, : len(edge)] += edge
                    else:
                        sent += placed(node, other, edge, self.room, side, 0)
            received = yield sent
            for node in mine:
                for payload in received[node]:
                    add_placed(rims[node], payload, node, 2)
                mine[node] = _stencil(mine[node], rims[node])
            rims_seen = rims_seen * np.uint32(3) + rims
        return {"cells": self._whole(mine), "rims": rims_seen}

    def answer(self) -> dict[str, np.ndarray]:
        cells = self.cells.copy()
        rims_seen = np.zeros((self.nodes, 4, self.size), np.uint32)
        for _ in range(self.steps):
            rims = np.zeros((self.nodes, 4, self.size), np.uint32)
            west, east = np.roll(cells, 1, 1), np.roll(cells, -1, 1)
            north, south = np.roll(cells, 1, 0), np.roll(cells, -1, 0)
            for node in range(self.nodes):
                for side, edge in (
                    (WEST, self._block(west, node)[:, 0]), (EAST, self._block(east, node)[:, -1]),
                    (NORTH, self._block(north, node)[0]), (SOUTH, self._block(south, node)[-1]),
                ):  # fmt: skip
                    rims[node, side, : len(edge)] = edge
            rims_seen = rims_seen * np.uint32(3) + rims
            cells = cells + west + east + north + south
        return {"cells": cells, "rims": rims_seen}

    def _neighbour(self, node: int, side: int) -> int:
        """The node whose ``side`` is next to this one's opposite rim."""
        x, y = node % self.across, node // self.across
        dx, dy = ((1, 0), (-1, 0), (0, 1), (0, -1))[side]
        return (x + dx) % self.across + (y + dy) % self.down * self.across

    def _block(self, cells: np.ndarray, node: int) -> np.ndarray:
        (top, bottom), (left, right) = self.rows[node // self.across], self.columns[node % self.across]
        return cells[top:bottom, left:right]

    def _whole(self, mine: dict[int, np.ndarray]) -> np.ndarray:
        whole = np.zeros_like(self.cells)
        for node, block in mine.items():
            self._block(whole, node)[:] = block
        return whole


def _stencil(block: np.ndarray, rims: np.ndarray) -> np.ndarray:
    """Each cell and its four neighbours, added."""
    high, wide = block.shape
    field = np.zeros((high + 2, wide + 2), np.uint32)
    field[1:-1, 1:-1] = block
    field[1:-1, 0], field[1:-1, -1] = rims[WEST, :high], rims[EAST, :high]
    field[0, 1:-1], field[-1, 1:-1] = rims[NORTH, :wide], rims[SOUTH, :wide]
    return field[1:-1, 1:-1] + field[1:-1, :-2] + field[1:-1, 2:] + field[:-2, 1:-1] + field[2:, 1:-1]


KERNEL = Halo
