"""Services between an NI and its host (cycle contract, section 10)."""
