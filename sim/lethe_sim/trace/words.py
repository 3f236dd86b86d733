"""From dense trace words, one row a cycle, to raw events (`docs/reference/cycle-contract.md`, section 7)."""

import numpy as np

from lethe.spec.trace import EVENT, Layout, lane_word

from .events import RAW_EVENT


def events_from_words(words: np.ndarray, layout: Layout, first_cycle: int = 0) -> np.ndarray:
    """The raw events (`RAW_EVENT`, ordered by cycle, unit, lane) in ``words``: uint64[cycles, `Layout.words`].

    ``first_cycle`` is the cycle of row 0.  Raises ValueError if the rows are not as wide as the layout's.
    """
    expected = layout.words
    if words.ndim != 2 or words.shape[1] != expected:
        raise ValueError(f"words must be rows of {expected} words, not of shape {words.shape}")
    parts = [_ni_events(words, layout), _router_events(words, layout), _link_events(words, layout)]
    parts += [_service_events(words, layout, level) for level in range(len(layout.services))]
    events = np.concatenate(parts)
    events["cycle"] += first_cycle
    return events[np.lexsort((events["lane"], events["unit"], events["cycle"]))]


def _rows(cycle, unit, lane, word, uid) -> np.ndarray:
    rows = np.empty(len(cycle), RAW_EVENT)
    for name, values in zip(RAW_EVENT.names or (), (cycle, unit, lane, word, uid), strict=True):
        rows[name] = values
    return rows


def _ni_events(words: np.ndarray, layout: Layout) -> np.ndarray:
    nodes, ni_words = layout.graph.nodes, layout.ni_words
    lanes = words[:, : layout.fabric_base].reshape(len(words), nodes, ni_words)
    places = np.array([lane_word(lane) for lane in range(len(layout.lanes))])
    event, uid = lanes[:, :, places], lanes[:, :, places + 1]
    cycle, node, lane = np.nonzero(EVENT.of(event))
    return _rows(cycle, node, lane, event[cycle, node, lane], uid[cycle, node, lane])


def _router_events(words: np.ndarray, layout: Layout) -> np.ndarray:
    graph = layout.graph
    lanes = [graph.lanes(r) for r in range(graph.routers)]
    router = np.repeat(np.arange(graph.routers), lanes)
    lane = np.concatenate([np.arange(count) for count in lanes]) if lanes else np.zeros(0, np.int64)
    event = words[:, layout.fabric_base : layout.link_base]
    cycle, column = np.nonzero(EVENT.of(event))
    return _rows(cycle, graph.first_router + router[column], lane[column], event[cycle, column], 0)


def _link_events(words: np.ndarray, layout: Layout) -> np.ndarray:
    graph = layout.graph
    packed = np.ascontiguousarray(words[:, layout.link_base : layout.service_base], dtype="<u8")
    codes = packed.view(np.uint8)[:, : graph.link_count]
    cycle, link = np.nonzero(codes)
    return _rows(cycle, graph.first_link + link, 0, codes[cycle, link], 0)


def _service_events(words: np.ndarray, layout: Layout, level: int) -> np.ndarray:
    first, lanes = layout.service_place(0, level) - layout.service_base, len(layout.services[level].lanes)
    stacks = words[:, layout.service_base :].reshape(len(words), layout.graph.nodes, layout.service_words)
    pairs = stacks[:, :, first : first + 2 * lanes].reshape(len(words), layout.graph.nodes, lanes, 2)
    cycle, node, lane = np.nonzero(EVENT.of(pairs[..., 0]))
    event, uid = pairs[cycle, node, lane].T
    unit = layout.first_service + node * len(layout.services) + level
    return _rows(cycle, unit, lane, event, uid)
