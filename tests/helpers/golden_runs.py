"""Systems whose golden runs the pipeline judges."""

from typing import Any

from lethe.spec.config import System

RUNS = {
    "tree": {"topology": {"kind": "tree", "arity": 2, "levels": 3}, "faults": {"loss": 0.1}},
    "narrow": {
        "topology": {"kind": "fly", "arity": 2, "levels": 2}, "wire": {"flit_bits": 16}, "router": {"latency": 3},
    },
    "mesh": {"topology": {"kind": "mesh", "columns": 3, "rows": 2}, "faults": {"flip": 2e-4}},
    "crossbar": {
        "topology": {"kind": "crossbar", "nodes": 5},
        "workload": {"retry_limit": 2},
        "faults": {"loss": 0.3, "stalls": [{"node": 1, "start": 100, "end": 600}]},
    },
    "wire": {"topology": {"kind": "wire"}, "faults": {"links": [{"link": 0, "start": 200, "end": 500}]}},
    "reset": {
        "topology": {"kind": "tree", "arity": 2, "levels": 2},
        "faults": {"loss": 0.05, "resets": [{"node": 1, "start": 150, "cycles": 9}, {"node": 2, "start": 400}]},
    },
    "queued": {
        "topology": {"kind": "tree", "arity": 2, "levels": 3}, "router": {"queue": 2, "max_wait": 20},
        "faults": {"loss": 0.1}, "workload": {"load": 1.0},
    },
    "queued mesh": {
        "topology": {"kind": "mesh", "columns": 3, "rows": 2}, "router": {"queue": 1}, "faults": {"flip": 2e-4},
    },
    "credits": {
        "topology": {"kind": "tree", "arity": 2, "levels": 3}, "router": {"flow": "credits"}, "timers": {"ceiling": 0},
        "workload": {"load": 1.0},
    },
    "study": {
        "topology": {"kind": "tree", "arity": 2, "levels": 3}, "faults": {"loss": 0.05}, "workload": {"load": 1.0},
        "study": {"per_destination": 2, "replies": "last", "path": "blind", "dilation": 2},
    },
    "study pinned": {
        "topology": {"kind": "tree", "arity": 2, "levels": 3}, "workload": {"load": 1.0}, "study": {"path": "pinned"},
    },
    "study fly": {
        "topology": {"kind": "fly", "arity": 2, "levels": 3}, "faults": {"flip": 2e-4}, "study": {"dilation": 3},
    },
    "silent": {
        "topology": {"kind": "crossbar", "nodes": 4}, "timers": {"silent_after": 2, "silent_probe": 300},
        "faults": {"absences": [{"node": 2, "start": 200, "end": 4000}]},
    },
    "away": {
        "topology": {"kind": "tree", "arity": 2, "levels": 2},
        "faults": {"loss": 0.1, "absences": [{"node": 2, "start": 200, "end": 900}]},
    },
    "dead": {
        "topology": {"kind": "tree", "arity": 2, "levels": 2}, "router": {"queue": 1}, "workload": {"retry_limit": 4},
        "timers": {"silent_after": 3, "ack_limit": 100, "backoff_steps": 1, "ceiling": 0},
        "faults": {"deaths": [{"node": 1, "start": 250}]},
    },
    "incarnations": {
        "topology": {"kind": "crossbar", "nodes": 4}, "ni": {"source_incarnation": True},
        "faults": {"loss": 0.1, "resets": [{"node": 1, "start": 150, "cycles": 9}, {"node": 2, "start": 400}]},
    },
    "wrapping": {
        "topology": {"kind": "wire"}, "wire": {"generation_bits": 2}, "ni": {"slots": 2}, "timers": {"wrap_guard": 0},
    },
}  # fmt: skip


def system_of(name: str) -> System:
    sections: dict[str, Any] = {section: dict(keys) for section, keys in RUNS[name].items()}
    sections["workload"] = {"load": 0.4, "count": 40, "min_length": 4} | sections.get("workload", {})
    return System.make(name, run={"name": name, "seed": 3, "cycles": 200_000}, **sections)
