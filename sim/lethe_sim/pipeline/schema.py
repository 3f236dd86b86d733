"""The trace schema in Spark, and the check that every frame read or passed in has it."""

from typing import TYPE_CHECKING

from pyspark.sql import types as T

from lethe.spec.events import TRACE_COLUMNS

from .session import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_SPARK = {"string": T.StringType(), "int16": T.ShortType(), "int32": T.IntegerType(), "int64": T.LongType()}

EVENTS = T.StructType([T.StructField(name, _SPARK[kind], nullable) for name, kind, nullable, _ in TRACE_COLUMNS])


def check_events(events: "DataFrame") -> "DataFrame":
    """``events`` itself, if its columns and types are those of a trace; raises `PipelineError` naming the column."""
    found = {field.name: field.dataType for field in events.schema}
    for wanted in EVENTS:
        if wanted.name not in found:
            raise PipelineError(f"column {wanted.name}: is missing; give the events of a trace")
        if found[wanted.name] != wanted.dataType:
            raise PipelineError(
                f"column {wanted.name}: is {found[wanted.name].simpleString()}, not "
                f"{wanted.dataType.simpleString()}; give the events of a trace"
            )
    return events
