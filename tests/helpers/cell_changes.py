"""A run with a bit of everything, and changes of cells of its trace."""

#: Losses, a reset, a take lane for each class.
MIXED = {
    "topology": {"kind": "tree", "arity": 2, "levels": 2}, "ni": {"control_classes": 2},
    "workload": {"count": 12, "load": 0.4, "min_length": 4},
    "faults": {"loss": 0.1, "resets": [{"node": 1, "start": 300, "cycles": 7}]},
    "run": {"name": "mixed", "seed": 8, "cycles": 60_000},
}  # fmt: skip


def change_cells(cells: dict):
    def change(rows):
        rows[len(rows) // 2].update(cells)

    return change
