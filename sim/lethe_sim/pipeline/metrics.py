"""What a run achieved, as DataFrames over datagrams: latency, goodput, messages, order of datagrams."""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from lethe.spec.config import System
from lethe.spec.events import CAUSE_BITS, Kind, Status

from .transformations import divided

#: Bins of the latency histogram in each doubling.
BINS_PER_OCTAVE = 4
#: Messages of a datagram beyond which they share a bar.
MOST_MESSAGES = 64
PERCENTILES = (0.5, 0.9, 0.99, 0.999)
#: Leading bits of a latency that percentiles keep: they are exact up to 4,096 cycles, and within 0.05 % beyond.
LATENCY_BITS = 12


def datagram(
    system: System,
    *,
    accepted_at: Column,
    delivered_at: Column,
    source: Column,
    destination: Column,
    length: Column,
    best_effort: Column,
    status: Column,
    sends: Column,
    messages: Column,
    once: Column,
    by_reset: Column,
) -> tuple[Column, ...]:
    """The columns that metrics are made of.

    ``accepted_at``, ``delivered_at`` and ``status`` are null if it was not accepted, delivered or completed; ``length``
    is in bytes, ``latency`` in cycles from acceptance to delivery; ``flits`` of payload and ``bytes`` are 0 if it was
    not delivered.
    """
    came = delivered_at.isNotNull()
    flits = divided(length + system.format.flit_bytes - 1, system.format.flit_bytes)
    return (
        accepted_at.alias("accepted_at"),
        delivered_at.alias("delivered_at"),
        (delivered_at - accepted_at).alias("latency"),
        source.alias("source"),
        destination.alias("destination"),
        F.when(came, length).otherwise(0).cast("long").alias("bytes"),
        F.when(came, flits).otherwise(0).cast("long").alias("flits"),
        best_effort.alias("best_effort"),
        status.cast("int").alias("status"),
        sends.cast("int").alias("sends"),
        messages.cast("int").alias("messages"),
        once.alias("once"),
        by_reset.alias("by_reset"),
    )


def measured(frame: DataFrame, system: System) -> DataFrame:
    """Run, uid, and the columns of `datagram`, from `transformations.touched_by_reset`."""
    c = F.col
    return frame.select(
        "run",
        "uid",
        *datagram(
            system,
            accepted_at=c("accepted_at"),
            delivered_at=c("delivered_at"),
            source=c("accepted_by"),
            destination=c("destination"),
            length=F.coalesce("delivered_length.least", F.lit(0)),
            best_effort=c("kind") == int(Kind.BE),
            status=F.when(c("completes") > 0, F.shiftright("completion", CAUSE_BITS)),
            sends=c("sends"),
            messages=c("sends") + c("best_efforts") + c("acks") + c("forgets"),
            once=c("delivers") + c("deliver_bes") == 1,
            by_reset=c("by_reset"),
        ),
    )


def totals(frame: DataFrame) -> DataFrame:
    """One row over the datagrams of `measured`."""
    c = F.col
    return frame.agg(
        F.count("accepted_at").alias("datagrams"),
        F.count("delivered_at").alias("delivered"),
        F.count_if(~c("by_reset") & c("once")).alias("once"),
        F.count_if("best_effort").alias("best_effort"),
        *(F.count_if(c("status") == int(s)).alias(s.name.lower()) for s in Status),
        F.count_if("by_reset").alias("by_reset"),
        *(F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in ("flits", "bytes", "messages")),
        F.count_if(c("sends") > 1).alias("repeated"),
        F.coalesce(F.max("sends"), F.lit(0)).alias("most_sends"),
        F.max_by("uid", "sends").alias("unlucky"),
        F.avg("latency").alias("latency_mean"),
        F.min("latency").alias("latency_least"),
        F.max("latency").alias("latency_greatest"),
    )


def histograms(frame: DataFrame, bin_cycles: int) -> DataFrame:
    """Bars (series, bin, value, of): ``latency`` by `BINS_PER_OCTAVE`, ``messages``, and ``goodput`` in payload flits.

    ``bin_cycles`` is the width of a goodput bin in cycles.  A bar of latencies comes in pieces: ``of`` is the latency,
    of a long one the `LATENCY_BITS` leading bits.
    """
    long = F.greatest("latency", F.lit(1))
    spare = F.greatest(F.floor(F.log2(long)) - (LATENCY_BITS - 1), F.lit(0)).cast("int")
    delivered = frame.where(F.col("delivered_at").isNotNull()).withColumn("spare", spare)

    def bar(series: str, key: Column, value: Column, piece: Column) -> Column:
        return F.struct(
            F.lit(series).alias("series"),
            key.cast("long").alias("bin"),
            value.cast("long").alias("value"),
            piece.cast("long").alias("of"),
        )

    one, nothing = F.lit(1), F.lit(0)
    pieces = F.expr("shiftleft(shiftright(latency, spare), spare)")
    bars = (
        bar("latency", F.floor(F.log2(long) * BINS_PER_OCTAVE), one, pieces),
        bar("messages", F.least("messages", F.lit(MOST_MESSAGES)), one, nothing),
        bar("goodput", F.floor(F.col("delivered_at") / bin_cycles), F.col("flits"), nothing),
    )
    # What was never accepted has no latency.
    each = delivered.select(F.inline(F.array(*bars))).where(F.col("of").isNotNull())
    return each.groupBy("series", "bin", "of").agg(F.sum("value").alias("value"))


def percentiles(latencies: list[tuple[int, int]]) -> list[int]:
    """The latency at each of `PERCENTILES`, from (latency, datagrams): the least that so many do not exceed."""
    latencies = sorted(latencies)
    total = sum(count for _, count in latencies)
    found, passed, rest = [], 0, iter(latencies)
    value = 0
    for part in PERCENTILES:
        while passed < part * total:
            value, count = next(rest)
            passed += count
        found.append(value)
    return found


def overtaken(frame: DataFrame) -> DataFrame:
    """Datagrams that were delivered before one accepted earlier by the same sender for the same receiver.

    Expected under loss (IMP-03): a metric, not a finding.
    """
    earlier = (
        Window.partitionBy("run", "source", "destination")
        .orderBy("accepted_at")
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    delivered = frame.where(F.col("delivered_at").isNotNull() & F.col("accepted_at").isNotNull())
    return delivered.withColumn("latest_before", F.max("delivered_at").over(earlier)).where(
        F.col("latest_before") > F.col("delivered_at")
    )
