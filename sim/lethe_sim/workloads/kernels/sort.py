"""Sample sort: samples to node 0, splitters to all, keys to where they belong, sorted there."""

import numpy as np

from ..kernel import Broken, Kernel, Program, Sent


class SampleSort(Kernel):
    """``size`` keys of 32 bits on each node.  Payloads are keys and nothing else."""

    def __init__(self, system):
        super().__init__(system)
        self.about = f"sample sort of {self.size * self.nodes:,} keys"
        self.keys = self.chance.randint(0, 1 << 32, (self.nodes, self.size), dtype=np.uint32)

    def program(self) -> Program:
        nodes = range(self.nodes)
        mine = [np.sort(self.keys[node]) for node in nodes]
        samples = [self._samples(keys) for keys in mine]
        received = yield [sent for node in nodes[1:] for sent in self._keys(node, 0, samples[node])]
        drawn = self._taken(0, samples[0], received[0])
        splitters = self._splitters(drawn)
        received = yield [sent for node in nodes[1:] for sent in self._keys(0, node, splitters)]
        known = [splitters] + [self._taken(node, splitters[:0], received[node]) for node in nodes[1:]]
        parts = [np.split(mine[node], np.searchsorted(mine[node], known[node])) for node in nodes]
        received = yield [
            sent
            for node in nodes
            for other, part in enumerate(parts[node][: self.nodes])
            if other != node
            for sent in self._keys(node, other, part)
        ]
        slices = [self._taken(node, _part(parts[node], node), received[node]) for node in nodes]
        return {
            "samples": drawn,
            "splitters": np.concatenate(known),
            "sizes": np.array([len(keys) for keys in slices]),
            "keys": np.concatenate(slices),
        }

    def answer(self) -> dict[str, np.ndarray]:
        everything = np.sort(self.keys, axis=None)
        drawn = np.sort(np.concatenate([self._samples(keys) for keys in np.sort(self.keys)]))
        splitters = self._splitters(drawn)
        bounds = np.concatenate([[0], np.searchsorted(everything, splitters), [everything.size]])
        return {
            "samples": drawn,
            "splitters": np.tile(splitters, self.nodes),
            "sizes": np.diff(bounds),
            "keys": everything,
        }

    def _samples(self, keys: np.ndarray) -> np.ndarray:
        """Up to four for each splitter, evenly from sorted keys."""
        many = min(len(keys), 4 * (self.nodes - 1))
        return keys[(np.arange(many) * len(keys)) // many]

    def _splitters(self, drawn: np.ndarray) -> np.ndarray:
        if not len(drawn):
            raise Broken("node 0 has no samples")
        return drawn[np.arange(1, self.nodes) * len(drawn) // self.nodes]

    def _keys(self, source: int, destination: int, keys: np.ndarray):
        step = self.room // 4
        for first in range(0, len(keys), step):
            payload = keys[first : first + step].astype("<u4").tobytes()
            yield Sent(source=source, destination=destination, payload=payload)

    def _taken(self, node: int, own: np.ndarray, payloads: list[bytes]) -> np.ndarray:
        """Own keys and those received, sorted: their order on the way does not matter."""
        for payload in payloads:
            if len(payload) % 4 or not payload:
                raise Broken(f"node {node} got {len(payload)} bytes, which are no keys of 4")
        return np.sort(np.concatenate([own, np.frombuffer(b"".join(payloads), "<u4").astype(np.uint32)]))


def _part(parts: list[np.ndarray], node: int) -> np.ndarray:
    return parts[node] if node < len(parts) else parts[0][:0]


KERNEL = SampleSort
