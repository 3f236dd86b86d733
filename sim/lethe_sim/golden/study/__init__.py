"""Studies: a network that discards nothing, and networks without NIs.  No hardware has these."""
