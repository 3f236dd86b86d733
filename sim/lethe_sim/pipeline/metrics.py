"""What a run achieved, as DataFrames over datagrams: latency, goodput, messages, order of datagrams."""

from functools import reduce

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from lethe.spec.config import System
from lethe.spec.events import Kind, Status

#: Bins of the latency histogram in each doubling.
BINS_PER_OCTAVE = 4
#: Messages of a datagram beyond which they share a bar.
MOST_MESSAGES = 64
PERCENTILES = (0.5, 0.9, 0.99, 0.999, 1.0)


def with_metrics(frame: DataFrame, system: System) -> DataFrame:
    """Datagrams with latency (acceptance to delivery), messages, and flits (of payload, if delivered)."""
    flit_bytes = system.format.flit_bytes
    return frame.withColumns(
        {
            "latency": F.col("delivered_at") - F.col("accepted_at"),
            "messages": F.col("sends") + F.col("best_efforts") + F.col("acks") + F.col("forgets"),
            "flits": F.when(
                F.col("delivers") + F.col("deliver_bes") > 0,
                F.ceil(F.col("delivered_length.least") / F.lit(flit_bytes)).cast("long"),
            ).otherwise(F.lit(0)),
        }
    )


def totals(frame: DataFrame) -> DataFrame:
    """One row over the datagrams of `with_metrics`."""
    c = F.col
    status = F.shiftright(c("completion"), 4)
    ended = c("completes") > 0
    judged = ~c("by_reset")
    return frame.agg(
        F.count_if(c("accepts") > 0).alias("datagrams"),
        F.count_if(c("delivers") + c("deliver_bes") > 0).alias("delivered"),
        F.count_if(judged & (c("delivers") + c("deliver_bes") == 1)).alias("once"),
        F.count_if(c("kind") == int(Kind.BE)).alias("best_effort"),
        *(F.count_if(ended & (status == int(s))).alias(s.name.lower()) for s in Status),
        F.count_if(c("by_reset")).alias("by_reset"),
        F.coalesce(F.sum("flits"), F.lit(0)).alias("flits"),
        F.coalesce(F.sum("delivered_length.least"), F.lit(0)).alias("bytes"),
        F.coalesce(F.sum("messages"), F.lit(0)).alias("messages"),
        F.coalesce(F.sum("repeats"), F.lit(0)).alias("repeats"),
        F.count_if(c("sends") > 1).alias("repeated"),
        F.coalesce(F.max("sends"), F.lit(0)).alias("most_sends"),
        F.max_by(F.col("uid"), F.col("sends")).alias("unlucky"),
        F.avg("latency").alias("latency_mean"),
        F.min("latency").alias("latency_least"),
        F.percentile_approx("latency", list(PERCENTILES), 10000).alias("latency_percentiles"),
    )


def histograms(frame: DataFrame, bin_cycles: int) -> DataFrame:
    """Bars (series, bin, value): ``latency`` by `BINS_PER_OCTAVE`, ``messages``, and ``goodput`` in payload flits.

    ``bin_cycles`` is the width of a goodput bin in cycles.
    """
    delivered = frame.where(F.col("delivered_at").isNotNull())
    latency = F.floor(F.log2(F.greatest("latency", F.lit(1))) * BINS_PER_OCTAVE)
    messages = F.least("messages", F.lit(MOST_MESSAGES))

    def bars(series: str, of: DataFrame, key, value) -> DataFrame:
        grouped = of.groupBy(key.cast("long").alias("bin")).agg(value.cast("long").alias("value"))
        return grouped.select(F.lit(series).alias("series"), "bin", "value")

    return reduce(
        DataFrame.unionByName,
        (
            bars("latency", delivered, latency, F.count("*")),
            bars("messages", delivered, messages, F.count("*")),
            bars("goodput", delivered, F.floor(F.col("delivered_at") / bin_cycles), F.sum("flits")),
        ),
    )


def overtaken(frame: DataFrame) -> DataFrame:
    """Datagrams that were delivered before one accepted earlier by the same sender for the same receiver.

    Expected under loss (IMP-03): a metric, not a finding.
    """
    earlier = (
        Window.partitionBy("run", "accepted_by", "destination")
        .orderBy("accepted_at")
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    delivered = frame.where(F.col("delivered_at").isNotNull())
    return delivered.withColumn("latest_before", F.max("delivered_at").over(earlier)).where(
        F.col("latest_before") > F.col("delivered_at")
    )
