"""Lethe: a network interface that delivers every datagram exactly once, and then forgets it."""

__version__ = "0.1.0"
