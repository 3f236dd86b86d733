"""From dense trace words, one row a cycle, to raw events (`docs/cycle-contract.md`, section 7)."""

import numpy as np

from lethe.spec import trace as layout
from lethe.spec.topology import Topology

from .events import RAW_EVENT


def events_from_words(words: np.ndarray, graph: Topology, first_cycle: int = 0) -> np.ndarray:
    """The raw events (`RAW_EVENT`, ordered by cycle, unit, lane) in ``words``: uint64[cycles, trace_words].

    ``first_cycle`` is the cycle of row 0.  Raises ValueError if the rows are not as wide as the graph's words.
    """
    expected = layout.trace_words(graph)
    if words.ndim != 2 or words.shape[1] != expected:
        raise ValueError(f"words must be rows of {expected} words, not of shape {words.shape}")
    parts = [_ni_events(words, graph), _router_events(words, graph), _link_events(words, graph)]
    events = np.concatenate(parts)
    events["cycle"] += first_cycle
    return events[np.lexsort((events["lane"], events["unit"], events["cycle"]))]


def _rows(cycle, unit, lane, word, uid) -> np.ndarray:
    rows = np.empty(len(cycle), RAW_EVENT)
    for name, values in zip(RAW_EVENT.names or (), (cycle, unit, lane, word, uid), strict=True):
        rows[name] = values
    return rows


def _ni_events(words: np.ndarray, graph: Topology) -> np.ndarray:
    lanes = words[:, : graph.nodes * layout.NI_WORDS].reshape(len(words), graph.nodes, layout.NI_WORDS)
    event = lanes[:, :, 0 : 2 * layout.LANES : 2]
    cycle, node, lane = np.nonzero(event & np.uint64(0xFF))
    uid = lanes[:, :, 1 : 2 * layout.LANES : 2]
    return _rows(cycle, node, lane, event[cycle, node, lane], uid[cycle, node, lane])


def _router_events(words: np.ndarray, graph: Topology) -> np.ndarray:
    lanes = [graph.lanes(r) for r in range(graph.routers)]
    router = np.repeat(np.arange(graph.routers), lanes)
    lane = np.concatenate([np.arange(count) for count in lanes]) if lanes else np.zeros(0, np.int64)
    start = graph.nodes * layout.NI_WORDS
    event = words[:, start : start + len(router)]
    cycle, column = np.nonzero(event & np.uint64(0xFF))
    return _rows(cycle, graph.nodes + router[column], lane[column], event[cycle, column], 0)


def _link_events(words: np.ndarray, graph: Topology) -> np.ndarray:
    packed = np.ascontiguousarray(words[:, layout.link_base(graph) :], dtype="<u8")
    codes = packed.view(np.uint8)[:, : graph.link_count]
    cycle, link = np.nonzero(codes)
    return _rows(cycle, graph.nodes + graph.routers + link, 0, codes[cycle, link], 0)
