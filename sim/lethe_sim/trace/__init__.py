"""Traces: one event schema (`lethe.spec.events.TRACE_COLUMNS`) in Arrow and Parquet, whichever side wrote it.

`words` turns trace words into raw events, `events` raw events into an Arrow table, `store` keeps tables in
files, `ladder` draws one datagram's life, `vcd` a run's waveform.
"""

from .events import RAW_EVENT, SCHEMA, decode, digest, encode
from .store import (
    Meta,
    Part,
    TraceError,
    TraceReader,
    TraceWriteError,
    TraceWriter,
    open_trace,
    summed_counters,
)
from .words import events_from_words

__all__ = [
    "RAW_EVENT",
    "SCHEMA",
    "Meta",
    "Part",
    "TraceError",
    "TraceReader",
    "TraceWriteError",
    "TraceWriter",
    "decode",
    "digest",
    "encode",
    "events_from_words",
    "open_trace",
    "summed_counters",
]
