"""Relay: messages that outlive the nodes they pass, as a service (its cycle contract is a page of its own)."""

from .relay import Relay

__all__ = ["Relay"]
