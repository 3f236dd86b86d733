"""DataFrame → DataFrame: from the events of traces to datagrams, worms and table entries.

All runs of a frame share one `System` but for seed, faults and workload.  Groups are by datagram or worm, whose
rows lie close together in a trace, so that most of each aggregation happens before the shuffle.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from lethe.spec.config import System
from lethe.spec.events import Drop, Event, Kind
from lethe.spec.topology import Topology
from lethe.spec.wire import UID_INCARNATION_SHIFT, UID_SLOT_SHIFT, UID_SOURCE_SHIFT

#: Which of the datagrams that shared a UID, in time: generations wrap.
LIFE = "life"
_DELIVERS = (Event.DELIVER, Event.DELIVER_BE)


def uid_source(uid: Column) -> Column:
    return F.shiftright(uid, UID_SOURCE_SHIFT).bitwiseAND(F.lit(0xFFFF)).cast("int")


def uid_slot(uid: Column) -> Column:
    return F.shiftright(uid, UID_SLOT_SHIFT).bitwiseAND(F.lit(0xFFFF)).cast("int")


def is_event(*events: Event) -> Column:
    return F.col("event").isin([int(e) for e in events])


def about_datagrams(events: DataFrame, system: System, *, wraps: bool) -> DataFrame:
    """NI events that name a datagram, with its ``life``.

    ``wraps`` says whether a UID may come twice; only then do the rows have to be sorted by time.
    """
    named = events.where((F.col("unit") < system.nodes) & F.col("uid").isNotNull())
    if not wraps:
        return named.withColumn(LIFE, F.lit(1))
    accepted_so_far = Window.partitionBy("run", "uid").orderBy("cycle").rangeBetween(Window.unboundedPreceding, 0)
    return named.withColumn(LIFE, F.sum(is_event(Event.ACCEPT).cast("int")).over(accepted_so_far).cast("int"))


def datagrams(named: DataFrame) -> DataFrame:
    """One row per datagram (run, uid, life) from the rows of `about_datagrams`.

    Counts: accepts, delivers, deliver_bes, sends, best_efforts, acks, forgets, duplicates, repeats, releases,
    give_ups, completes.  Cycles: accepted_at, delivered_at, first_send, last_send, ended_at, first, last.  Sides:
    accepted_by, destination, length, kind as accepted; delivered_to, delivered_from, delivered_length as
    (least, greatest) over all deliveries; sent_by likewise; cause, completion as reported.
    """

    def times(*events: Event) -> Column:
        return F.count_if(is_event(*events)).cast("int")

    def least(column: str, *events: Event) -> Column:
        return F.min(F.when(is_event(*events), F.col(column)))

    def most(column: str, *events: Event) -> Column:
        return F.max(F.when(is_event(*events), F.col(column)))

    def both(column: str, *events: Event) -> Column:
        return F.struct(least(column, *events).alias("least"), most(column, *events).alias("most"))

    return named.groupBy("run", "uid", LIFE).agg(
        times(Event.ACCEPT).alias("accepts"),
        least("cycle", Event.ACCEPT).alias("accepted_at"),
        least("unit", Event.ACCEPT).alias("accepted_by"),
        least("peer", Event.ACCEPT).alias("destination"),
        least("length", Event.ACCEPT).alias("length"),
        least("detail", Event.ACCEPT).alias("kind"),
        times(Event.DELIVER).alias("delivers"),
        times(Event.DELIVER_BE).alias("deliver_bes"),
        least("cycle", *_DELIVERS).alias("delivered_at"),
        both("unit", *_DELIVERS).alias("delivered_to"),
        both("peer", *_DELIVERS).alias("delivered_from"),
        both("length", *_DELIVERS).alias("delivered_length"),
        times(Event.SEND).alias("sends"),
        times(Event.BE).alias("best_efforts"),
        least("cycle", Event.SEND, Event.BE).alias("first_send"),
        most("cycle", Event.SEND, Event.BE).alias("last_send"),
        both("unit", Event.SEND, Event.BE).alias("sent_by"),
        times(Event.ACK).alias("acks"),
        times(Event.FORGET).alias("forgets"),
        times(Event.DUPLICATE).alias("duplicates"),
        times(Event.REPEAT).alias("repeats"),
        times(Event.RELEASE).alias("releases"),
        times(Event.GIVE_UP).alias("give_ups"),
        least("cycle", Event.RELEASE, Event.GIVE_UP).alias("ended_at"),
        most("detail", Event.GIVE_UP).alias("cause"),
        times(Event.COMPLETE).alias("completes"),
        most("detail", Event.COMPLETE).alias("completion"),
        F.min("cycle").alias("first"),
        F.max("cycle").alias("last"),
    )


def unmatched_worms(events: DataFrame, system: System) -> DataFrame:
    """Arrivals without a launch: run, uid, cycle, unit (receiver), peer (sender), arrivals, launches.

    All paths of a pair have one length, so a worm that arrives in *c* was launched in exactly one cycle
    (`launch_cycle`).  If each arrival has its launch there, no worm has overtaken another of its pair, and none has
    come from nowhere (guarantee 3 of the memo).
    """
    event, detail = F.col("event"), F.col("detail")
    dropped = event == int(Event.DROP)
    full = detail.isin([int(Drop.TABLE_FULL), int(Drop.TIMER_FULL), int(Drop.DELIVER_FULL), int(Drop.INCARNATION)])
    family = (
        F.when(is_event(Event.SEND, Event.BE), F.lit(int(Kind.SEND)))
        .when(is_event(Event.DELIVER, Event.DELIVER_BE, Event.DUPLICATE) | (dropped & full), F.lit(int(Kind.SEND)))
        .when(is_event(Event.ACK, Event.RELEASE, Event.ACK_IGNORED), F.lit(int(Kind.ACK)))
        .when(is_event(Event.FORGET, Event.FORGOTTEN, Event.FORGET_IGNORED), F.lit(int(Kind.FORGET)))
    )
    launch = is_event(Event.SEND, Event.BE, Event.ACK, Event.FORGET)
    unit, peer = F.col("unit"), F.col("peer")
    worms = (
        events.where((unit < system.nodes) & F.col("uid").isNotNull())
        .withColumn("family", family)
        .where(F.col("family").isNotNull())
        .select(
            "run",
            "uid",
            "family",
            F.when(launch, unit).otherwise(peer).alias("sender"),
            F.when(launch, peer).otherwise(unit).alias("receiver"),
            F.when(launch, F.col("cycle"))
            .otherwise(launch_cycle(system, F.col("cycle"), F.col("family"), peer, unit, F.col("length")))
            .alias("launched"),
            launch.alias("launch"),
            "cycle",
        )
    )
    matched = worms.groupBy("run", "uid", "family", "sender", "receiver", "launched").agg(
        F.count_if(F.col("launch")).alias("launches"),
        F.count_if(~F.col("launch")).alias("arrivals"),
        F.max("cycle").alias("cycle"),
    )
    return matched.where(F.col("arrivals") > F.col("launches")).select(
        "run", "uid", "cycle", F.col("receiver").alias("unit"), F.col("sender").alias("peer"), "arrivals", "launches"
    )


def launch_cycle(
    system: System, cycle: Column, family: Column, sender: Column, receiver: Column, length: Column
) -> Column:
    """Cycle of a worm's first flit, from the cycle in which its arrival acts: it acts two after its last flit."""
    wire = system.format
    payload = F.ceil(F.coalesce(length, F.lit(0)) / F.lit(wire.flit_bytes)).cast("long")
    data = F.lit(wire.header_flits + wire.crc_flits) + payload
    flits = F.when(family == int(Kind.SEND), data).otherwise(F.lit(wire.control_flits))
    return cycle - 2 - (flits - 1) - hops(system.graph, sender, receiver) * system.router.latency


def hops(graph: Topology, a: Column, b: Column) -> Column:
    """Routers between two nodes: `Topology.hops` as an expression."""
    match graph.kind:
        case "tree":
            meeting = F.lit(2 * graph.levels - 1)
            for level in reversed(range(graph.levels - 1)):
                below = graph.arity ** (level + 1)
                together = F.floor(a / below) == F.floor(b / below)
                meeting = F.when(together, F.lit(2 * level + 1)).otherwise(meeting)
            return meeting
        case "mesh":
            columns = graph.columns
            across = F.abs(a % columns - b % columns)
            along = F.abs(F.floor(a / columns) - F.floor(b / columns))
            return across + along + 1
        case _:
            return F.lit(graph.hops(0, 1))


def entries_left(events: DataFrame, system: System) -> DataFrame:
    """Receive-table entries that a run leaves behind: run, uid, cycle (of DELIVER), unit (receiver), peer (sender)."""
    uid, delivered = F.col("uid"), is_event(Event.DELIVER)
    source, slot = uid_source(uid), uid_slot(uid)
    incarnation = F.shiftright(uid, UID_INCARNATION_SHIFT).bitwiseAND(F.lit(0xFF))
    generation = uid.bitwiseAND(F.lit(0xF_FFFF))

    def latest(value: Column, bits: int) -> Column:
        """The cycle of the last delivery, and the value it had, as one number: structures aggregate slowly."""
        return F.max(F.when(delivered, F.shiftleft(F.col("cycle"), bits) + value))

    entries = (
        events.where((F.col("unit") < system.nodes) & is_event(Event.DELIVER, Event.FORGOTTEN, Event.ORPHAN))
        .groupBy("run", "unit", source.alias("peer"), slot.alias("slot"))
        .agg(
            latest(generation, 20).alias("generation"),
            latest(incarnation, 8).alias("incarnation"),
            F.max(F.when(~delivered, F.col("cycle"))).alias("gone"),
        )
        .withColumn("cycle", F.shiftright("generation", 20))
        .where(F.col("cycle") > F.coalesce("gone", F.lit(-1)))
    )
    for reset in system.faults.resets:
        cleared = (F.col("unit") == reset.node) & (F.col("cycle") < reset.start + reset.cycles)
        entries = entries.where(~cleared)
    packed = (
        F.shiftleft(F.col("peer").cast("long"), UID_SOURCE_SHIFT)
        + F.shiftleft(F.col("incarnation").bitwiseAND(F.lit(0xFF)), UID_INCARNATION_SHIFT)
        + F.shiftleft(F.col("slot").cast("long"), UID_SLOT_SHIFT)
        + F.col("generation").bitwiseAND(F.lit(0xF_FFFF))
    )
    return entries.select("run", packed.alias("uid"), "cycle", "unit", "peer")


def not_taken(events: DataFrame, system: System) -> DataFrame:
    """Pairs whose host took other than what was delivered: run, unit, peer, delivered, taken, cycle, and bytes of both.

    Nodes that were reset are left out: what a reset loses is reported by its event.
    """
    delivered, taken = is_event(*_DELIVERS), is_event(Event.TAKE)
    pairs = (
        events.where((F.col("unit") < system.nodes) & (delivered | taken))
        .where(~F.col("unit").isin([reset.node for reset in system.faults.resets]))
        .groupBy("run", "unit", "peer")
        .agg(
            F.count_if(delivered).alias("delivered"),
            F.count_if(taken).alias("taken"),
            F.sum(F.when(delivered, F.col("length")).otherwise(0)).alias("delivered_bytes"),
            F.sum(F.when(taken, F.col("length")).otherwise(0)).alias("taken_bytes"),
            F.max("cycle").alias("cycle"),
        )
    )
    return pairs.where((F.col("delivered") != F.col("taken")) | (F.col("delivered_bytes") != F.col("taken_bytes")))


def touched_by_reset(frame: DataFrame, system: System, cycles: int) -> DataFrame:
    """Datagrams with ``by_reset``: whether their source or destination was reset while they lived."""
    source, end = uid_source(F.col("uid")), F.when(F.col("completes") == 0, cycles).otherwise(F.col("last"))
    touched = F.lit(False)
    for reset in system.faults.resets:
        party = (source == reset.node) | (F.coalesce(F.col("destination"), F.lit(-1)) == reset.node)
        party = party | (F.coalesce(F.col("delivered_to.most"), F.lit(-1)) == reset.node)
        touched = touched | (party & (end >= reset.start) & (F.col("first") < reset.start + reset.cycles))
    return frame.withColumn("by_reset", touched)


def tallies(events: DataFrame) -> DataFrame:
    """Events by run, unit, event and detail: count, first and last cycle, sum of lengths."""
    return events.groupBy("run", "unit", "event", "detail").agg(
        F.count("*").alias("count"),
        F.min("cycle").alias("first"),
        F.max("cycle").alias("last"),
        F.sum("length").alias("bytes"),
    )
