"""Services between a NI and its host (cycle contract, section 10)."""
