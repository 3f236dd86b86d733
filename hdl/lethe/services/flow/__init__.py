"""Flow: messages to ports, in order, with credits and congestion (its cycle contract is a page of its own)."""

from .flow import Flow

__all__ = ["Flow"]
