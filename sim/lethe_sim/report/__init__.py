"""Reports: one self-contained web page about a run (`report`), from what the audit found (`render`)."""

from .page import render, report

__all__ = ["render", "report"]
