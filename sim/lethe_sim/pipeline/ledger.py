"""One row of sums for each datagram, in one pass, and whether they tell that all is well with it.

Most datagrams are sound.  A few numbers, each a sum over a datagram's events, prove it; only suspects, those that
the sums cannot clear, are held against the rules of `findings`, which need all their rows once more.  Sums need no
order, so that most of the work is done before the shuffle, and that has one row a datagram.

**Worms.**  Every arrival must have its launch (`transformations.launch_cycle`).  Let each worm have a hash *h* of
who sent what to whom when.  If the arrivals are some of the launches, the differences of their power sums

    D_k = Σ h^k over launches − Σ h^k over arrivals      (mod 2^64)

are the power sums of the worms that were lost.  One lost worm has D_2 = D_1²; two have 2·D_3 = 3·D_1·D_2 − D_1³
(Newton's identities); none has D_1 = D_2 = 0.  Other arrivals meet this by chance once in about 2^60 cases.  A datagram
that lost three worms of a kind, but not all, is a suspect.
"""

from contextlib import contextmanager
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from lethe.spec.config import System
from lethe.spec.events import CAUSE_BITS, MOST_CAUSE, OF_DATAGRAM, Event, Kind, Status

from .metrics import datagram
from .transformations import is_event, uid_source, worm

#: A datagram with more events than this is a suspect: its counts may not fit their fields.
MOST_ROWS = 255
#: Counts by field of ``ends``, from the lowest, of `_END_BITS` each.
_ENDS = (
    Event.ACCEPT, Event.DELIVER, Event.DELIVER_BE, Event.RELEASE, Event.GIVE_UP, Event.COMPLETE, Event.FORGOTTEN,
)  # fmt: skip
_END_BITS = 8
#: Counts by field of ``launched`` and ``arrived``.  A best-effort message is a worm of the Sends' kind.
_FAMILIES = (Kind.SEND, Kind.ACK, Kind.FORGET)
_WORM_BITS = 16
#: Events that no sum holds.
_PASSED_OVER = (Event.REPEAT, Event.ACK_REPEAT, Event.KILLED)
_DELIVERS = (Event.DELIVER, Event.DELIVER_BE)
_POWERS = (1, 2, 3)
_NEVER = 1 << 62
_CYCLE_BITS = 44


@contextmanager
def wrapping(spark: SparkSession):
    """Integers wrap, rather than raise, in what is planned meanwhile: power sums are taken mod 2^64."""
    name = "spark.sql.ansi.enabled"
    before = spark.conf.get(name) or "true"
    spark.conf.set(name, "false")
    try:
        yield
    finally:
        spark.conf.set(name, before)


def ledger(events: DataFrame, system: System, *, eras: bool) -> DataFrame:
    """Sums over the events of each datagram: run, uid, era, and the columns that `judged` reads.

    A UID comes twice no sooner than after `System.wrap_time`.  With ``eras`` these spans are counted, so that a row
    holds one datagram, or a part of one that the next row has the rest of.
    """
    c = F.col
    held = [event for event in OF_DATAGRAM if event not in _PASSED_OVER]
    named = events.where((c("unit") < system.nodes) & c("uid").isNotNull() & is_event(*held))
    found = worm(system)
    era = F.floor(c("cycle") / system.wrap_time).cast("int") if eras else F.lit(0)
    rows = named.select(
        "run", "uid", era.alias("era"), "event", "detail", "cycle", "unit",
        F.coalesce("peer", F.lit(-1)).alias("peer"),
        F.coalesce("length", F.lit(0)).alias("length"),
        F.coalesce(found.family, F.lit(0)).alias("family"),
        F.when(found.family.isNull(), 0).when(found.launch, 1).otherwise(-1).cast("long").alias("sign"),
        F.xxhash64(found.launched * 4 + found.family, found.sender.cast("long") * 65536 + found.receiver).alias("h"),
    )  # fmt: skip
    # In steps, so that each power is computed once.
    rows = rows.withColumn("p1", c("sign") * c("h")).withColumn("p2", c("p1") * c("h"))
    rows = rows.withColumn("p3", c("p2") * c("h"))
    columns = [
        F.count(F.lit(1)).alias("rows"),
        F.sum(F.when(c("sign") > 0, _one_of_families()).otherwise(0)).alias("launched"),
        F.sum(F.when(c("sign") < 0, _one_of_families()).otherwise(0)).alias("arrived"),
        F.sum(_one_of_ends()).alias("ends"),
        *(
            F.sum(F.when(c("family") == int(family), c(f"p{power}")).otherwise(0)).alias(_power(family, power))
            for family in _FAMILIES
            for power in _POWERS
        ),
        F.count_if(_odd()).alias("odd"),
        F.count_if(is_event(Event.BE)).alias("best_efforts"),
        _total(_both_ends(c("detail"), c("peer")), Event.ACCEPT).alias("accepted"),
        _total(
            _both_ends(F.when(is_event(Event.DELIVER), int(Kind.SEND)).otherwise(int(Kind.BE)), c("unit")), *_DELIVERS
        ).alias("delivered"),
        _total(c("cycle"), Event.ACCEPT).alias("accepted_at"),
        _total(c("cycle"), *_DELIVERS).alias("delivered_at"),
        _total(c("cycle"), Event.RELEASE, Event.GIVE_UP).alias("ended_at"),
        _total(c("detail"), Event.GIVE_UP).alias("cause"),
        _total(c("detail"), Event.COMPLETE).alias("completion"),
        _total(F.shiftleft(c("unit").cast("long"), _CYCLE_BITS) + c("cycle"), Event.FORGOTTEN).alias("forgotten"),
        F.min(F.when(is_event(Event.SEND, Event.BE), c("cycle")).otherwise(_NEVER)).alias("first_send"),
        F.max(F.when(is_event(Event.SEND, Event.BE), c("cycle")).otherwise(-1)).alias("last_send"),
    ]
    if system.faults.resets:
        columns += [F.min("cycle").alias("first"), F.max("cycle").alias("last")]
    return rows.groupBy("run", "uid", "era").agg(*columns)


def _power(family: Kind, power: int) -> str:
    return f"{family.name.lower()}_{power}"


def _one_of_families() -> Column:
    """1 in the field of the row's family."""
    chosen = F.when(F.col("family") == int(Kind.SEND), F.lit(1))
    for place, family in enumerate(_FAMILIES[1:], 1):
        chosen = chosen.when(F.col("family") == int(family), F.lit(1 << _WORM_BITS * place))
    return chosen.otherwise(0).cast("long")


def _one_of_ends() -> Column:
    """1 in the field of the row's event."""
    chosen = F.when(is_event(_ENDS[0]), F.lit(1))
    for place, event in enumerate(_ENDS[1:], 1):
        chosen = chosen.when(is_event(event), F.lit(1 << _END_BITS * place))
    return chosen.otherwise(0).cast("long")


def _odd() -> Column:
    """An event at another node than the UID's source, or from another."""
    source = uid_source(F.col("uid"))
    at_sender = F.when(is_event(Event.ACCEPT, Event.SEND, Event.BE), F.col("unit") != source)
    return at_sender.when(is_event(*_DELIVERS), F.col("peer") != source).otherwise(False)


def _both_ends(kind: Column, destination: Column) -> Column:
    """What is the same at both ends, as one number: kind, destination, length."""
    return F.shiftleft(kind.cast("long"), 32) + F.shiftleft(destination.cast("long"), 16) + F.col("length")


def _total(value: Column, *of: Event) -> Column:
    return F.sum(F.when(is_event(*of), value).otherwise(0).cast("long"))


def judged(book: DataFrame, system: System, *, drained: bool) -> DataFrame:
    """Datagrams as `metrics` reads them (`metrics.datagram`), with ``suspect`` and ``open``, from a `ledger`.

    A row that is no suspect breaks no rule of `findings`; the columns of others mean nothing.  ``open`` means that its
    entry at the receiver may outlive the run.
    """
    c = F.col
    times = {event: _field("ends", place, _END_BITS) for place, event in enumerate(_ENDS)}
    sends, acks, forgets = (_field("launched", place, _WORM_BITS) for place in range(len(_FAMILIES)))
    best_effort = F.shiftright("accepted", 32) == int(Kind.BE)
    delivers = times[Event.DELIVER] + times[Event.DELIVER_BE]
    ends, completes, released = (
        times[Event.RELEASE] + times[Event.GIVE_UP], times[Event.COMPLETE], times[Event.RELEASE] == 1,
    )  # fmt: skip
    status = F.shiftright("completion", CAUSE_BITS)
    told = status == int(Status.ACCEPTED)
    unsent = status.isin(int(Status.REJECTED), int(Status.NEVER_SENT))
    sound = [
        c("rows") <= MOST_ROWS,
        times[Event.ACCEPT] == 1,
        c("odd") == 0,
        *(_worms_arrived(family, place) for place, family in enumerate(_FAMILIES)),
        # One kind of message, and not before it was accepted.
        c("best_efforts") == F.when(best_effort, sends).otherwise(0),
        c("accepted_at") <= c("first_send"),
        # Delivered once or not at all, as it was accepted.
        (delivers == 0)
        | (
            (delivers == 1)
            & (c("delivered") == c("accepted"))
            & (c("accepted_at") <= c("delivered_at"))
            & (c("first_send") <= c("delivered_at"))
        ),
        # Ended once or not at all, and never sent again.
        (ends == 0) | ((ends == 1) & (c("last_send") <= c("ended_at") + 2)),
        ~(released & (delivers == 0)),
        # Completed as it ended.
        ((completes == 0) & F.lit(not drained))
        | (
            (completes == 1)
            & (ends == 1)
            & (told == released)
            & (c("completion").bitwiseAND(F.lit(MOST_CAUSE)) == c("cause"))
            & ~(unsent & ((sends > 0) | (delivers > 0)))
        ),
    ]
    for reset in system.faults.resets:
        lived = (completes == 0) | (c("last") >= reset.start)
        sound.append(~(lived & (c("first") < reset.start + reset.cycles)))
    there = F.shiftright("accepted", 16).bitwiseAND(F.lit(0xFFFF))
    closed = (
        (times[Event.FORGOTTEN] == 1)
        & (F.shiftright("forgotten", _CYCLE_BITS) == there)
        & (c("forgotten").bitwiseAND(F.lit((1 << _CYCLE_BITS) - 1)) > c("delivered_at"))
    )
    return book.select(
        "run",
        "uid",
        *datagram(
            system,
            accepted_at=c("accepted_at"),
            delivered_at=F.when(delivers > 0, c("delivered_at")),
            source=uid_source(c("uid")),
            destination=there.cast("int"),
            length=c("accepted").bitwiseAND(F.lit(0xFFFF)),
            best_effort=best_effort,
            status=F.when(completes > 0, status),
            sends=sends - c("best_efforts"),
            messages=sends + acks + forgets,
            once=delivers == 1,
            by_reset=F.lit(False),
        ),
        (~reduce(Column.__and__, sound)).alias("suspect"),
        ((times[Event.DELIVER] > 0) & ~closed).alias("open"),
    )


def _field(name: str, place: int, bits: int) -> Column:
    return F.shiftright(name, bits * place).bitwiseAND(F.lit((1 << bits) - 1))


def _worms_arrived(family: Kind, place: int) -> Column:
    """Whether the arrivals of a family are some of its launches, as far as three power sums can tell."""
    d1, d2, d3 = (F.col(_power(family, power)) for power in _POWERS)
    arrived = _field("arrived", place, _WORM_BITS)
    lost = _field("launched", place, _WORM_BITS) - arrived
    return (
        (arrived == 0)
        | ((lost == 0) & (d1 == 0) & (d2 == 0))
        | ((lost == 1) & (d2 == d1 * d1))
        | ((lost == 2) & (2 * d3 == 3 * d1 * d2 - d1 * d1 * d1))
    )
