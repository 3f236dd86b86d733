"""DataFrame → DataFrame: from the events of traces to datagrams, worms and table entries.

All runs of a frame share one `System` but for seed, faults and workload.  Groups are by datagram or worm, whose
rows lie close together in a trace, so that most of each aggregation happens before the shuffle.
"""

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from lethe.spec.config import System
from lethe.spec.events import EVENTS, LAUNCHES, OF_DATAGRAM, REFUSALS, Event, Kind
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
    named = events.where((F.col("unit") < system.nodes) & F.col("uid").isNotNull() & is_event(*OF_DATAGRAM))
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
        most("cycle", Event.FORGOTTEN, Event.ORPHAN).alias("left_at"),
        both("unit", Event.FORGOTTEN, Event.ORPHAN).alias("left"),
        F.min("cycle").alias("first"),
        F.max("cycle").alias("last"),
    )


def unmatched_worms(events: DataFrame, system: System) -> DataFrame:
    """Arrivals without a launch: run, uid, cycle, unit (receiver), peer (sender), arrivals, launches.

    All paths of a pair have one length, so a worm that arrives in *c* was launched in exactly one cycle
    (`launch_cycle`).  If each arrival has its launch there, no worm has overtaken another of its pair, and none has
    come from nowhere (guarantee 3 of the memo).  Where routers have queues only the latter is shown; the former is
    then for `overtaking_worms`.
    """
    found = worm(system)
    worms = (
        events.where((F.col("unit") < system.nodes) & F.col("uid").isNotNull())
        .where(found.family.isNotNull())
        .select(
            "run",
            "uid",
            found.family.alias("family"),
            found.sender.alias("sender"),
            found.receiver.alias("receiver"),
            found.launched.alias("launched"),
            found.launch.alias("launch"),
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


def overtaking_worms(events: DataFrame, system: System) -> DataFrame:
    """Where routers have queues, arrivals that broke their order: run, uid, cycle, unit (receiver), peer (sender).

    A worm waits at most `System.packet_life`, so that some launches of its datagram and kind come into question.  It
    has overtaken if the latest of them is not behind the earliest of one that arrived before it on the same path.  A
    pair has one path, but one for each slot and direction through a fat tree (`lethe.spec.pin`).
    """
    found = worm(system)
    family, launch, cycle = found.family, found.launch, F.col("cycle")
    arrived = launch_cycle(system, cycle, family, F.col("peer"), F.col("unit"), F.col("length"))
    paths = ["run", "sender", "receiver"]
    if system.graph.kind == "tree":
        paths += ["slot", "answers"]
    worms = events.where((F.col("unit") < system.nodes) & F.col("uid").isNotNull() & family.isNotNull()).select(
        "run",
        "uid",
        "cycle",
        family.alias("family"),
        launch.alias("launch"),
        found.sender.alias("sender"),
        found.receiver.alias("receiver"),
        F.when(launch, cycle).otherwise(arrived).alias("at"),
        uid_slot(F.col("uid")).alias("slot"),
        (family == int(Kind.ACK)).alias("answers"),
    )
    same = Window.partitionBy("run", "uid", "family", "sender", "receiver").orderBy("at")
    possible = same.rangeBetween(-system.packet_life, Window.currentRow)
    launched = F.when(F.col("launch"), F.col("cycle"))
    arrivals = worms.select(
        "*", F.min(launched).over(possible).alias("earliest"), F.max(launched).over(possible).alias("latest")
    ).where(~F.col("launch"))
    before = Window.partitionBy(*paths).orderBy("cycle").rowsBetween(Window.unboundedPreceding, -1)
    behind = F.max("earliest").over(before)
    broken = F.coalesce(F.col("latest") <= F.col("behind"), F.col("latest").isNull())
    return (
        arrivals.withColumn("behind", behind)
        .where(broken)
        .select("run", "uid", "cycle", F.col("receiver").alias("unit"), F.col("sender").alias("peer"))
    )


@dataclass(frozen=True, kw_only=True)
class Worm:
    """Columns over NI events that name a datagram: which worm they launch or receive.

    ``family`` is the Kind it belongs to (Send for best effort), null for other events; ``launch`` tells a launch from
    an arrival; ``launched`` is the cycle of its first flit between ``sender`` and ``receiver``, 0 with queues.
    """

    family: Column
    launch: Column
    sender: Column
    receiver: Column
    launched: Column


def worm(system: System) -> Worm:
    """The worm of an event, as expressions over its columns."""
    cycle, unit, peer, detail = (F.col(name) for name in ("cycle", "unit", "peer", "detail"))
    refused = is_event(Event.DROP) & detail.isin(list(map(int, REFUSALS)))
    family = F.when(refused, F.lit(int(Kind.SEND)))
    for kind in (Kind.SEND, Kind.ACK, Kind.FORGET):
        family = family.when(is_event(*(e for e, facts in EVENTS.items() if facts.worm is kind)), F.lit(int(kind)))
    launch = is_event(*LAUNCHES)
    arrived = launch_cycle(system, cycle, family, peer, unit, F.col("length"))
    # A worm that may have waited does not tell when it was launched.
    known = not system.worms_wait
    return Worm(
        family=family,
        launch=launch,
        sender=F.when(launch, unit).otherwise(peer),
        receiver=F.when(launch, peer).otherwise(unit),
        launched=F.when(launch, cycle).otherwise(arrived) if known else F.lit(0).cast("long"),
    )


def launch_cycle(
    system: System, cycle: Column, family: Column, sender: Column, receiver: Column, length: Column
) -> Column:
    """Cycle of a worm's first flit, from the cycle in which its arrival acts: it acts two after its last flit."""
    wire = system.format
    payload = divided(F.coalesce(length, F.lit(0)) + wire.flit_bytes - 1, wire.flit_bytes)
    data = F.lit(wire.header_flits + wire.crc_flits) + payload
    flits = F.when(family == int(Kind.SEND), data).otherwise(F.lit(wire.control_flits))
    return cycle - 2 - (flits - 1) - hops(system.graph, sender, receiver) * system.router.latency


def divided(value: Column, by: int) -> Column:
    """A number of at least 0, divided and rounded down; a shift where that will do."""
    if by & (by - 1) == 0:
        return F.shiftright(value, by.bit_length() - 1)
    return F.floor(value / by)


def hops(graph: Topology, a: Column, b: Column) -> Column:
    """Routers between two nodes: `Topology.hops` as an expression."""
    match graph.kind:
        case "tree":
            meeting = F.lit(2 * graph.levels - 1)
            for level in reversed(range(graph.levels - 1)):
                below = graph.arity ** (level + 1)
                together = divided(a, below) == divided(b, below)
                meeting = F.when(together, F.lit(2 * level + 1)).otherwise(meeting)
            return meeting
        case "mesh":
            columns = graph.columns
            across = F.abs(a % columns - b % columns)
            along = F.abs(divided(a, columns) - divided(b, columns))
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


def entry_is_open() -> Column:
    """Whether the entry of a datagram of `datagrams` may outlive the run, if no other takes its place."""
    where, left = F.col("delivered_to"), F.col("left")
    once = (F.col("delivers") == 1) & (where["least"] == left["least"]) & (where["most"] == left["most"])
    closed = once & (where["least"] == where["most"]) & (F.col("left_at") > F.col("delivered_at"))
    return (F.col("delivers") > 0) & ~F.coalesce(closed, F.lit(False))


def not_taken(tally: DataFrame, system: System) -> DataFrame:
    """Pairs whose host took other than what was delivered: run, unit, peer, delivered, taken, cycle, and bytes of both.

    From `tallies`.  Nodes that were reset are left out: what a reset loses is reported by its event.
    """
    delivered, taken = is_event(*_DELIVERS), is_event(Event.TAKE)

    def total(column: str, which: Column) -> Column:
        return F.coalesce(F.sum(F.when(which, F.col(column))), F.lit(0))

    pairs = (
        tally.where((F.col("unit") < system.nodes) & (delivered | taken))
        .where(~F.col("unit").isin([reset.node for reset in system.faults.resets]))
        .groupBy("run", "unit", F.col("part").alias("peer"))
        .agg(
            total("count", delivered).alias("delivered"),
            total("count", taken).alias("taken"),
            total("bytes", delivered).alias("delivered_bytes"),
            total("bytes", taken).alias("taken_bytes"),
            F.max("last").alias("cycle"),
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


def tallies(events: DataFrame, system: System) -> DataFrame:
    """Events by run, unit, event, detail and part: count, first and last cycle, sum of lengths (``bytes``).

    ``part`` is the peer of what is delivered and taken at an NI, the slot of what is accepted there, else −1.
    """
    at_ni = F.col("unit") < system.nodes
    part = F.when(at_ni & is_event(*_DELIVERS, Event.TAKE), F.coalesce("peer", F.lit(-1)))
    part = part.when(at_ni & is_event(Event.ACCEPT), F.coalesce(uid_slot(F.col("uid")), F.lit(-1))).otherwise(-1)
    return events.groupBy("run", "unit", "event", "detail", part.alias("part")).agg(
        F.count("*").alias("count"),
        F.min("cycle").alias("first"),
        F.max("cycle").alias("last"),
        F.sum("length").alias("bytes"),
    )
