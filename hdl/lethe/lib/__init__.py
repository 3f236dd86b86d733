"""Blocks that know nothing of the protocol: the queue and the draws of the cycle contract."""
