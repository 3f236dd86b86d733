"""What the audit looks for: each finding is a rule over datagrams, worms, entries or pairs, in one frame."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lethe.spec.config import System
from lethe.spec.events import CAUSE_BITS, MOST_CAUSE, Kind, Status

from .transformations import entries_left, not_taken, overtaking_worms, uid_source, unmatched_worms

#: Name of a finding → what it means, for those who read a report.
FINDINGS = {
    "lost": "accepted, but never delivered, although its sender was told otherwise or told nothing",
    "doubled": "delivered more than once",
    "altered": "delivered with another length, kind, source or destination than it was accepted with",
    "invented": "sent or delivered before it was accepted, or without ever having been",
    "misreported": "its completion contradicts what happened",
    # T6
    "late": "sent again after it had ended",
    "disordered": "a worm arrived where and when none was launched for it, so the fabric did not keep order",
    "held": "its slot was never given back",
    "remembered": "the receiver still remembers it at the end",
    "untaken": "what the receiving host took is not what was delivered to it",
    "outside": "an event outside the run's cycles, units or ports",
    "miscounted": "the counters or sums of the run contradict its events",
    "garbled": "a row that contradicts itself, lacks a cell, or is of another run",
    "misplaced": "a row that does not come after the one before it: rows are doubled, or not in order",
    "reset": "a reset that was scheduled and did not happen, or happened and was not scheduled",
    "changed": "rows or metadata that are not what the run wrote: another digest, number or seal",
}

#: Schema of a frame of findings.
FOUND = T.StructType(
    [
        T.StructField("run", T.StringType()),
        T.StructField("finding", T.StringType()),
        T.StructField("uid", T.LongType()),
        T.StructField("cycle", T.LongType()),
        T.StructField("unit", T.IntegerType()),
        T.StructField("peer", T.IntegerType()),
        T.StructField("note", T.StringType()),
    ]
)


def findings(events: DataFrame, datagrams: DataFrame, system: System, *, drained: bool) -> DataFrame:
    """What breaks a rule of a datagram, as `FOUND`.

    ``datagrams`` are those to hold against the rules, `transformations.touched_by_reset`, and ``events`` those of their
    UIDs.  What only the end of a run can tell is looked for if it is ``drained``.  A datagram that a reset touched is
    not judged, but its worms are.
    """
    judged = datagrams.where(~F.col("by_reset"))
    return _about_datagrams(judged, drained).unionByName(_disordered(events, system))


def at_the_end(events: DataFrame, tally: DataFrame, system: System, *, entries: bool) -> DataFrame:
    """What a drained run left behind, as `FOUND`; ``entries`` says whether any entry may be among it."""
    found = _untaken(tally, system)
    return found.unionByName(_remembered(events, system)) if entries else found


def _about_datagrams(judged: DataFrame, drained: bool) -> DataFrame:
    c = F.col
    delivered = c("delivers") + c("deliver_bes")
    sent = c("sends") + c("best_efforts")
    completed = c("completes") > 0
    status = F.shiftright(c("completion"), CAUSE_BITS)
    end = F.lit(drained)

    def told(value: Status) -> Column:
        return completed & (status == int(value))

    def differs(column: str, wanted: str | Column) -> Column:
        wanted = c(wanted) if isinstance(wanted, str) else wanted
        return (c(f"{column}.least") != wanted) | (c(f"{column}.most") != wanted)

    source = uid_source(c("uid"))
    exactly_once = c("kind") == int(Kind.SEND)
    rules = {
        "lost": (
            (delivered == 0) & ((c("releases") > 0) | told(Status.ACCEPTED))
            | (end & exactly_once & (delivered == 0) & (c("completes") + c("give_ups") == 0)),
            "ended_at",
            F.when(completed, F.lit("its sender was told ACCEPTED")).otherwise(F.lit("its sender was told nothing")),
        ),
        "doubled": (delivered > 1, "delivered_at", F.concat(F.lit("delivered "), delivered, F.lit(" times"))),
        "altered": (
            (c("accepts") > 0)
            & (
                differs("delivered_length", "length")
                | differs("delivered_to", "destination")
                | differs("delivered_from", "accepted_by")
                | (c("accepted_by") != source)
                | (exactly_once & (c("deliver_bes") + c("best_efforts") > 0))
                | (~exactly_once & (c("delivers") + c("sends") > 0))
            ),
            "delivered_at",
            F.concat_ws(
                " ",
                F.lit("accepted"), c("length"), F.lit("bytes for node"), c("destination"),
                F.lit("from node"), c("accepted_by"), F.lit("but delivered"), c("delivered_length.most"),
                F.lit("bytes at node"), c("delivered_to.most"), F.lit("from node"), c("delivered_from.most"),
            ),
        ),
        "invented": (
            ((c("accepts") == 0) & (delivered + sent + c("completes") > 0))
            | (F.least("first_send", "delivered_at") < c("accepted_at"))
            | (c("accepts") > 1)
            | ((delivered > 0) & (F.coalesce(c("first_send") > c("delivered_at"), F.lit(True))))
            | differs("sent_by", source),
            "first",
            F.concat(
                F.lit("accepted "), c("accepts"), F.lit(", sent "), sent, F.lit(", delivered "), delivered
            ),
        ),
        "misreported": (
            (c("completes") > 1)
            | (c("releases") + c("give_ups") > 1)
            | (completed & (c("releases") + c("give_ups") == 0))
            | (told(Status.ACCEPTED) & (c("releases") == 0))
            | (completed & (status != int(Status.ACCEPTED)) & (c("give_ups") == 0))
            | (completed & (c("completion").bitwiseAND(F.lit(MOST_CAUSE)) != F.coalesce(c("cause"), F.lit(0))))
            | ((told(Status.REJECTED) | told(Status.NEVER_SENT)) & (sent + delivered > 0)),
            "ended_at",
            F.concat(
                F.lit("completed "), c("completes"), F.lit(" times, released "), c("releases"),
                F.lit(", given up "), c("give_ups"), F.lit(", sent "), sent, F.lit(", delivered "), delivered,
            ),
        ),
        "late": (
            # A grant in the cycle of the end still sees a live slot; its worm shows two cycles on.
            c("last_send") > c("ended_at") + 2,
            "last_send",
            F.concat(F.lit("ended in cycle "), c("ended_at")),
        ),
        "held": (
            end & (c("accepts") > 0) & (c("completes") == 0),
            "last",
            F.lit("no completion was taken"),
        ),
    }  # fmt: skip
    found = F.array_compact(
        F.array(
            *(
                F.when(
                    rule,
                    F.struct(
                        F.lit(name).alias("finding"),
                        F.coalesce(c(cycle), c("last")).alias("cycle"),
                        note.alias("note"),
                    ),
                )
                for name, (rule, cycle, note) in rules.items()
            )
        )
    )
    return judged.withColumn("found", F.explode(found)).select(
        "run",
        "found.finding",
        "uid",
        "found.cycle",
        source.alias("unit"),
        F.coalesce("destination", "delivered_to.most").alias("peer"),
        "found.note",
    )


def _disordered(events: DataFrame, system: System) -> DataFrame:
    note = F.concat(F.col("arrivals"), F.lit(" arrived of "), F.col("launches"), F.lit(" launched"))
    return _found(unmatched_worms(events, system), "disordered", note)


def overtaking(events: DataFrame, system: System) -> DataFrame:
    """Worms that overtook where routers have queues, as `FOUND`; ``events`` are all of the runs'."""
    note = F.lit("arrived before one that was launched earlier on its path, or long after it can have been launched")
    return _found(overtaking_worms(events, system), "disordered", note)


def _remembered(events: DataFrame, system: System) -> DataFrame:
    return _found(entries_left(events, system), "remembered", F.lit("neither forgotten nor reclaimed after this"))


def _untaken(tally: DataFrame, system: System) -> DataFrame:
    note = F.concat(
        F.lit("delivered "), F.col("delivered"), F.lit(" datagrams of "), F.col("delivered_bytes"),
        F.lit(" bytes; taken "), F.col("taken"), F.lit(" of "), F.col("taken_bytes"),
    )  # fmt: skip
    frame = not_taken(tally, system).withColumn("uid", F.lit(None).cast("long"))
    return _found(frame, "untaken", note)


def _found(frame: DataFrame, name: str, note: Column) -> DataFrame:
    return frame.select("run", F.lit(name).alias("finding"), "uid", "cycle", "unit", "peer", note.alias("note"))
