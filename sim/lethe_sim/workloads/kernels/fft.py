"""Two-dimensional FFT: rows, a transpose over the network, columns."""

import numpy as np

from ..kernel import Kernel, Program, add_placed, blocks, placed


class Fft(Kernel):
    """A matrix of ``size`` × ``size`` complex numbers of 128 bits, rows dealt out to the nodes in blocks.

    What the transpose brings is compared bit by bit with NumPy's rows, because rounding in the columns could hide a
    low bit; the result with `numpy.fft.fft2`, within `TOLERANCE`.
    """

    #: Of the largest number.  NumPy 2 rounds as the program does, and the two are equal; others need not.
    TOLERANCE = 1e-12

    def __init__(self, system):
        super().__init__(system)
        self.about = f"FFT of {self.size:,} × {self.size:,} numbers"
        self.matrix = self.chance.standard_normal((self.size, self.size, 2)).view(np.complex128)[..., 0]
        self.blocks = blocks(self.size, self.nodes)

    def program(self) -> Program:
        rows = [np.fft.fft(self.matrix[first:end], axis=1) for first, end in self.blocks]
        received = yield [
            sent
            for source, (first, end) in enumerate(self.blocks)
            for destination, (left, right) in enumerate(self.blocks)
            if source != destination
            for column in range(left, right)
            for sent in placed(
                source, destination, rows[source][: end - first, column], self.room, column - left, first
            )
        ]
        columns = []
        for node, (left, right) in enumerate(self.blocks):
            mine = np.zeros((right - left, self.size), np.complex128)
            first, end = self.blocks[node]
            mine[:, first:end] = rows[node][:, left:right].T
            for payload in received[node]:
                add_placed(mine, payload, node, 2)
            columns.append(mine)
        result = np.concatenate([np.fft.fft(mine, axis=1) for mine in columns]).T
        return {"columns": np.concatenate(columns), "close": self._close(result)}

    def answer(self) -> dict[str, np.ndarray]:
        rows = np.concatenate([np.fft.fft(self.matrix[first:end], axis=1) for first, end in self.blocks])
        return {"columns": rows.T, "close": np.ones((self.size, self.size), bool)}

    def _close(self, result: np.ndarray) -> np.ndarray:
        right = np.fft.fft2(self.matrix)
        with np.errstate(invalid="ignore"):
            return abs(result - right) <= self.TOLERANCE * abs(right).max()


KERNEL = Fft
