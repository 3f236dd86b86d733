"""Tree reduction: vectors added up a binomial tree to node 0, and the sum handed down it to all."""

import numpy as np

from ..kernel import Kernel, Program, add_placed, placed


class Reduce(Kernel):
    """``size`` numbers mod 2^64 on each node."""

    def __init__(self, system):
        super().__init__(system)
        self.about = f"sum of {self.nodes:,} vectors of {self.size:,} numbers, known to all"
        self.vectors = self.chance.randint(1, 1 << 64, (self.nodes, self.size), dtype=np.uint64)

    def program(self) -> Program:
        sums = self.vectors.copy()
        strides = [1 << i for i in range((self.nodes - 1).bit_length())]
        for stride in strides:
            received = yield [
                sent
                for node in range(stride, self.nodes, 2 * stride)
                for sent in placed(node, node - stride, sums[node], self.room, 0)
            ]
            self._add(sums, received)
        sums[1:] = 0
        for stride in reversed(strides):
            received = yield [
                sent
                for node in range(stride, self.nodes, 2 * stride)
                for sent in placed(node - stride, node, sums[node - stride], self.room, 0)
            ]
            self._add(sums, received)
        return {"sums": sums}

    def answer(self) -> dict[str, np.ndarray]:
        return {"sums": np.tile(self.vectors.sum(axis=0, dtype=np.uint64), (self.nodes, 1))}

    @staticmethod
    def _add(sums: np.ndarray, received: list[list[bytes]]) -> None:
        for node, payloads in enumerate(received):
            for payload in payloads:
                add_placed(sums[node], payload, node, 1)


KERNEL = Reduce
