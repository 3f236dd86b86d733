"""Reports: one self-contained web page about a run (`report`, `render`) or about a sweep (`sweep_report`)."""

from .page import render, report
from .sweep import Figure, facets, figures, sweep_report

__all__ = ["Figure", "facets", "figures", "render", "report", "sweep_report"]
