"""The verdict on every datagram: most from sums, the suspects from all their rows."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lethe.spec.config import System

from . import transformations as T
from .findings import FOUND, at_the_end, findings, overtaking
from .ledger import judged, ledger, wrapping
from .metrics import measured

#: Fewer suspects than this are sent to every task, so that the rows of the others need no shuffle.
_FEW = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """What is known of the datagrams of a frame's runs.

    Attributes
    ----------
    datagrams : run, uid and the columns of `metrics.datagram`
    found : what is wrong with them, as `findings.FOUND`
    suspects : how many rows of sums cleared no datagram
    """

    datagrams: DataFrame
    found: DataFrame
    suspects: int


@contextmanager
def judgement(
    events: DataFrame, tally: DataFrame, system: System, cycles: int, *, drained: bool, wraps: bool
) -> Iterator[Judgement]:
    """Judge the datagrams in ``events``; what has been computed is kept until the context ends.

    Parameters
    ----------
    events : of runs that share ``system`` but for seed and workload
    tally : `transformations.tallies` of them
    cycles : of the longest run
    drained : whether all of them came to rest
    wraps : whether a UID may come twice
    """
    kept: list[DataFrame] = []

    def keep(frame: DataFrame) -> DataFrame:
        kept.append(frame.persist(StorageLevel.MEMORY_AND_DISK))
        return frame

    try:
        with wrapping(events.sparkSession):
            book = keep(judged(ledger(events, system, wraps=wraps), system, drained=drained))
        suspect = F.col("suspect")
        counts = book.agg(F.count_if(suspect).alias("suspects"), F.count_if(F.col("open") & ~suspect).alias("open"))
        row = counts.collect()[0]
        suspects, entries = row["suspects"], row["open"] > 0
        datagrams, found = book.where(~suspect).drop("suspect", "open"), None
        if suspects:
            names = keep(book.where(suspect).select("run", "uid").distinct())
            few = F.broadcast(names) if suspects < _FEW else names
            theirs = events.where((F.col("unit") < system.nodes) & F.col("uid").isNotNull())
            theirs = theirs.join(few, ["run", "uid"], "left_semi")
            named = T.about_datagrams(theirs, system, wraps=wraps)
            exact = keep(T.touched_by_reset(T.datagrams(named), system, cycles))
            found = keep(findings(theirs, exact, system, drained=drained))
            if wraps:
                # The sums of a suspect's other lives may have been cleared.
                datagrams = datagrams.join(few, ["run", "uid"], "left_anti")
            datagrams = datagrams.unionByName(measured(exact, system))
            entries = entries or not exact.where(T.entry_is_open()).isEmpty()
        if drained:
            end = at_the_end(events, tally, system, entries=entries)
            found = keep(end if found is None else found.unionByName(end))
        if system.worms_wait:
            order = overtaking(events, system)
            found = keep(order if found is None else found.unionByName(order))
        if found is None:
            found = events.sparkSession.createDataFrame([], FOUND)
        yield Judgement(datagrams=datagrams, found=found, suspects=suspects)
    finally:
        for frame in reversed(kept):
            frame.unpersist()
