"""The verdict on every datagram: most from sums, the suspects from all their rows."""

from dataclasses import dataclass
from functools import cached_property

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
    """

    datagrams: DataFrame
    found: DataFrame


class Kept:
    """Frames that are computed once, and let go at the end of a ``with``."""

    def __init__(self):
        self._frames: list[DataFrame] = []

    def __enter__(self) -> "Kept":
        return self

    def __exit__(self, *_) -> None:
        for frame in reversed(self._frames):
            frame.unpersist()

    def __call__(self, frame: DataFrame) -> DataFrame:
        self._frames.append(frame.persist(StorageLevel.MEMORY_AND_DISK))
        return frame


class Judge:
    """Judges the datagrams of some runs.

    Parameters
    ----------
    events : of runs that share ``system`` but for seed and workload
    tally : `transformations.tallies` of them
    cycles : of the longest run
    drained : whether all of them came to rest
    keep : what has been computed is kept here
    """

    def __init__(self, events: DataFrame, tally: DataFrame, system: System, cycles: int, *, drained: bool, keep: Kept):
        self._events, self._tally, self._system, self._cycles = events, tally, system, cycles
        self._drained, self._keep = drained, keep
        self._eras = cycles > system.wrap_time

    @cached_property
    def _book(self) -> DataFrame:
        with wrapping(self._events.sparkSession):
            book = ledger(self._events, self._system, eras=self._eras)
            return self._keep(judged(book, self._system, drained=self._drained))

    def doubts(self) -> tuple[int, bool]:
        """How many rows of sums clear no datagram; whether a datagram that is cleared has an open entry."""
        suspect = F.col("suspect")
        counted = self._book.agg(F.count_if(suspect), F.count_if(F.col("open") & ~suspect))
        suspects, entries = counted.collect()[0]
        return suspects, entries > 0

    def judgement(self, suspects: int, *, entries: bool, wraps: bool) -> Judgement:
        """The verdict, after `doubts`; ``wraps`` says whether a UID may come twice."""
        events, system, keep = self._events, self._system, self._keep
        datagrams, found = self._book.where(~F.col("suspect")).drop("suspect", "open"), None
        if suspects:
            names = keep(self._book.where("suspect").select("run", "uid").distinct())
            few = F.broadcast(names) if suspects < _FEW else names
            theirs = events.where((F.col("unit") < system.nodes) & F.col("uid").isNotNull())
            theirs = keep(theirs.join(few, ["run", "uid"], "left_semi"))
            named = T.about_datagrams(theirs, system, wraps=wraps)
            exact = keep(T.touched_by_reset(T.datagrams(named), system, self._cycles))
            found = keep(findings(theirs, exact, system, drained=self._drained))
            if self._eras or wraps:
                # The sums of a suspect's other lives, or of a part of it, may have been cleared.
                datagrams = datagrams.join(few, ["run", "uid"], "left_anti")
            datagrams = datagrams.unionByName(measured(exact, system))
            entries = entries or not exact.where(T.entry_is_open()).isEmpty()
        if self._drained:
            end = at_the_end(events, self._tally, system, entries=entries)
            found = keep(end if found is None else found.unionByName(end))
        if system.worms_wait:
            order = overtaking(events, system)
            found = keep(order if found is None else found.unionByName(order))
        if found is None:
            found = events.sparkSession.createDataFrame([], FOUND)
        return Judgement(datagrams=datagrams, found=found)
