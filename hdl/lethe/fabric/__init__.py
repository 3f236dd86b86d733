"""Routers that discard, the links between them, and their faults (cycle contract, sections 2 and 3)."""
