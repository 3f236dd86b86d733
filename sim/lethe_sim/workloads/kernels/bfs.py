"""Breadth-first search: distances from vertex 0 and numbers of shortest paths, level by level."""

import numpy as np

from ..kernel import Broken, Kernel, Program, Sent

_ENTRY = np.dtype([("vertex", "<u4"), ("paths", "<u4")])
#: Edges for each vertex, on average.
DEGREE = 6


class Bfs(Kernel):
    """A random graph of ``size`` vertices, dealt out to the nodes in turn.

    For every edge that leaves the frontier its far end is told how many shortest paths come over it (mod 2^32).
    Distances alone would forgive a doubled message; the numbers of paths, and what every vertex has been told in all,
    late or not, forgive nothing.
    """

    def __init__(self, system):
        super().__init__(system)
        self.about = f"breadth-first search of {self.size:,} vertices"
        ends = self.chance.randint(0, self.size, (DEGREE * self.size // 2, 2), dtype=np.int64)
        ends = np.unique(np.sort(ends[ends[:, 0] != ends[:, 1]], axis=1), axis=0)
        self.tail, self.head = np.concatenate([ends, ends[:, ::-1]]).T

    def program(self) -> Program:
        distance = np.full(self.size, -1)
        paths, told = np.zeros(self.size, np.uint32), np.zeros(self.size, np.uint32)
        distance[0], paths[0], level = 0, 1, 0
        while (distance == level).any():
            sent, coming = [], np.zeros(self.size, np.uint32)
            reached = np.zeros(self.size, bool)
            for node in range(self.nodes):
                edges = np.flatnonzero((distance[self.tail] == level) & (self.tail % self.nodes == node))
                entries = np.empty(len(edges), _ENTRY)
                entries["vertex"], entries["paths"] = self.head[edges], paths[self.tail[edges]]
                owner = self.head[edges] % self.nodes
                for other in range(self.nodes):
                    if other == node:
                        self._tell(node, entries[owner == node], coming, reached)
                    else:
                        sent += self._messages(node, other, entries[owner == other])
            received = yield sent
            for node, payloads in enumerate(received):
                for payload in payloads:
                    if len(payload) % _ENTRY.itemsize or not payload:
                        raise Broken(f"node {node} got {len(payload)} bytes, which are no entries of 8")
                    self._tell(node, np.frombuffer(payload, _ENTRY), coming, reached)
            told += coming
            new = reached & (distance < 0)
            level += 1
            distance[new], paths[new] = level, coming[new]
        return {"distance": distance, "paths": paths, "told": told}

    def answer(self) -> dict[str, np.ndarray]:
        """The same over the whole edge list at once, without owners or messages."""
        distance, paths = np.full(self.size, -1), np.zeros(self.size, np.uint32)
        frontier = np.zeros(self.size, bool)
        distance[0], paths[0], frontier[0], level = 0, 1, True, 0
        while frontier.any():
            level += 1
            kept = frontier[self.tail]
            coming = np.zeros(self.size, np.uint32)
            np.add.at(coming, self.head[kept], paths[self.tail[kept]])
            new = np.zeros(self.size, bool)
            new[self.head[kept]] = True
            frontier = new & (distance < 0)
            distance[frontier], paths[frontier] = level, coming[frontier]
        told = np.zeros(self.size, np.uint32)
        np.add.at(told, self.head, paths[self.tail])
        return {"distance": distance, "paths": paths, "told": told}

    def _messages(self, source: int, destination: int, entries: np.ndarray):
        step = self.room // _ENTRY.itemsize
        for first in range(0, len(entries), step):
            yield Sent(source=source, destination=destination, payload=entries[first : first + step].tobytes())

    def _tell(self, node: int, entries: np.ndarray, coming: np.ndarray, reached: np.ndarray) -> None:
        vertex = entries["vertex"].astype(np.int64)
        if (vertex >= self.size).any() or (vertex % self.nodes != node).any():
            raise Broken(f"node {node} was told of a vertex that is not its own")
        np.add.at(coming, vertex, entries["paths"])
        reached[vertex] = True


KERNEL = Bfs
