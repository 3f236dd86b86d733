"""A driver of NIs on a bus: the same calls over the golden model and over exported RTL."""
