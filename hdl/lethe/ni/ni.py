"""The network interface: exactly once, unordered, connectionless (cycle contract, section 4)."""

from amaranth.hdl import Cat, Const, Module, Mux, ResetInserter, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from lethe.host import deliver_streams, host_signature
from lethe.layouts import flit_layout
from lethe.lib.queue import Queue
from lethe.lib.random import Draws
from lethe.spec import stages
from lethe.spec.config import System
from lethe.spec.events import (
    CAUSE_BITS,
    COUNTED,
    EVENTS,
    LANE_RX,
    LANE_TX,
    Counter,
    Drop,
    Event,
    Kind,
)
from lethe.spec.ports import HostPort, since_bits
from lethe.spec.trace import WORD_BITS
from lethe.statistics import Statistics

from .accept import Accept
from .action import Action
from .completion import Completions, FreeSlots
from .deliver import DeliverFifo
from .ladder import Ladder
from .layouts import Records
from .paths import Paths
from .payload_store import PayloadStore
from .receive_table import ReceiveTable
from .receiver import Receiver
from .round_trip import RoundTrip
from .send_table import SendTable
from .silence import Silence
from .transmitter import Transmitter
from .walk import Walk
from .watch import event_word, padded, uid_word, when

__all__ = ["Ni"]


class Ni(wiring.Component):
    """A network interface.

    Every NI of a system is the same module: what differs (``node``, ``seed``) is an input.  Every decision takes
    effect in the cycle that the cycle contract names.

    Parameters
    ----------
    system : the configuration
    watch : whether there is ``watch``
    dump : whether there are ``dump``, ``dumped`` and ``dumped_valid``
    snapshot : whether there are ``counter_walk`` and ``counter_since``

    Members
    -------
    node : In(node_bits)
        Own number, constant.
    seed : In(32)
        `seed_for` of the NI's generator, constant; read in the first cycle after system reset.
    incarnation : In(incarnation_bits)
        Never 0; changes only with the first cycle of a node reset.
    link_enable : In(1)
        0 stops new worms and freezes the time base.
    node_reset : In(1)
        Node reset, synchronous (section 4.11); while it is 1 every output is 0, but for the payloads of streams.
    time_base : Out(time_bits)
        The time base.
    link_i, link_o : In(flit), Out(flit)
    host : Out(`host_signature`)
        Its streams; in Verilog ``send_valid``, … without the port's name.
    dump : In(stream, index), dumped, dumped_valid : Out
        State dump, taken only while ``host.quiesce`` and nothing acts: the slot and the set that the low bits of
        ``index`` name, four cycles after the index is taken: {live, generation, destination, entries}.  What is not
        live or not valid means nothing else; a slot that does not exist is not live.
    counter_address, counter_data : In, Out(32), with ``ni.statistics``
        Counter `spec.events.Counter`, `statistics.LATENCY` cycles later: its events of all cycles up to three before
        that of the address.
        Counts survive a node reset.
    counter_walk, counter_since : In(1), Out(`since_bits`)
        To read counters as of one cycle: `statistics.Statistics`.
    watch : Out(64 · `Layout.ni_words`)
        Trace words, word 0 lowest; logic that feeds only this vanishes if it is not connected.
    """

    def __init__(self, system: System, *, watch: bool = True, dump: bool = True, snapshot: bool = False):
        self._system, self._watch, self._dump = system, watch, dump
        self._snapshot = snapshot and system.ni.statistics
        form, records = system.format, Records(system)
        members = {
            "node": In(form.node_bits),
            "seed": In(32),
            "incarnation": In(form.incarnation_bits),
            "link_enable": In(1),
            "node_reset": In(1),
            "time_base": Out(system.time_bits),
            "link_i": In(flit_layout(form)),
            "link_o": Out(flit_layout(form)),
            "host": Out(host_signature(system)),
        }
        if dump:
            members["dump"] = In(stream.Signature(range(max(system.ni.slots, system.ni.sets))))
            members |= {"dumped": Out(records.dump), "dumped_valid": Out(1)}
        if watch:
            members["watch"] = Out(WORD_BITS * system.layout.ni_words)
        if system.ni.statistics:
            members["counter_address"] = In(range(system.counter_addresses))
            members["counter_data"] = Out(32)
        if self._snapshot:
            members |= {"counter_walk": In(1), "counter_since": Out(since_bits(system))}
        super().__init__(members)

    def elaborate(self, platform):
        m = Module()
        system, records = self._system, Records(self._system)
        slots = system.ni.slots

        # Everything but the generator, the counters and the gates below is reset with the node.
        inner = Module()
        inner.submodules.walk = walk = Walk(system)
        inner.submodules.table = table = SendTable(system)
        inner.submodules.payloads = payloads = PayloadStore(system)
        inner.submodules.received = received = ReceiveTable(system)
        inner.submodules.free = free = FreeSlots(system)
        inner.submodules.news = news = Queue(records.launch, slots)
        inner.submodules.repeats = repeats = Queue(records.repeat, slots)
        inner.submodules.replies = replies = Queue(records.reply, system.ni.reply_depth)
        inner.submodules.send_ladder = send_ladder = Ladder(system, records.token)
        inner.submodules.ack_ladder = ack_ladder = Ladder(system, records.ack_token, stages.SPARE_DELIVER)
        inner.submodules.completions = completions = Completions(system)
        inner.submodules.accept = accept = Accept(system, watch=self._watch)
        accepts = [(accept, news, free.free)]
        inner.d.comb += accept.ahead.eq(free.ahead)
        if system.ni.control_slots:
            inner.submodules.accept_control = control = Accept(system, control=True, watch=self._watch)
            inner.submodules.controls = controls = Queue(records.launch, system.ni.control_slots, foresees=True)
            accepts.append((control, controls, free.free_control))
            inner.d.comb += [accept.yields.eq(control.acts), control.ahead.eq(free.ahead_control)]
        inner.submodules.transmitter = transmitter = Transmitter(system)
        inner.submodules.receiver = receiver = Receiver(system)
        inner.submodules.action = action = Action(system, dump=self._dump)
        fifos = []
        for i in range(1 + system.ni.control_classes):
            sizes = {"flits": system.control_flits, "records": system.control_records} if i else {}
            inner.submodules[f"deliver{i}"] = fifo = DeliverFifo(system, **sizes)
            fifos.append(fifo)
        m.submodules.core = ResetInserter(self.node_reset)(inner)

        time, busy = Signal(system.time_bits), Signal(range(slots + 1))
        taken = completions.taken.valid
        inner.d.sync += time.eq(time + self.link_enable)
        # One accept at most begins in a cycle.
        begun = Cat(unit.begun for unit, _, _ in accepts).any()
        with inner.If(begun & ~taken):
            inner.d.sync += busy.eq(busy + 1)
        with inner.Elif(taken & ~begun):
            inner.d.sync += busy.eq(busy - 1)

        # Wires that go everywhere.
        ready = walk.ready
        cleared = [table.clear, free.clear]
        if system.measured:
            inner.submodules.round_trip = round_trip = RoundTrip(system)
            inner.d.comb += round_trip.time_base.eq(time)
            cleared.append(round_trip.clear)
        inner.d.comb += [
            *(unit.node.eq(self.node) for unit in (transmitter, receiver, action)),
            *(unit.incarnation.eq(self.incarnation) for unit in (transmitter, receiver, action)),
            *(unit.time_base.eq(time) for unit in (free, transmitter, action, send_ladder, ack_ladder)),
            *(unit.advance.eq(self.link_enable) for unit in (action, send_ladder, ack_ladder)),
            accept.waiting.eq(free.level),
            transmitter.open.eq(ready & self.link_enable),
            receiver.link_i.eq(self.link_i),
            action.ready.eq(ready),
            action.nearly.eq(walk.nearly),
            action.quiesce.eq(self.host.quiesce),
        ]
        if system.timers.silent_after:
            inner.submodules.silence = silence = Silence(system)
            inner.d.comb += silence.link_enable.eq(self.link_enable)
            wiring.connect(inner, walk.nodes, silence.clear)
            wiring.connect(inner, action.hear, silence.hear)
            wiring.connect(inner, transmitter.judge, silence.judge)
        if system.timers.path_after:
            inner.submodules.paths = paths = Paths(system)
            wiring.connect(inner, walk.paths, paths.clear)
            wiring.connect(inner, action.tried, paths.tried)
            wiring.connect(inner, transmitter.route, paths.route)
        wiring.connect(inner, walk.slots, *cleared)
        wiring.connect(inner, walk.sets, received.clear)

        # Accept.
        for unit, launches, slot in accepts:
            may = ready & ~self.host.quiesce & launches.i.ready
            if unit is not accept:
                may = ~self.host.quiesce
                inner.d.comb += unit.opens.eq(Mux(walk.nearly, launches.next_ready, 0))
            inner.d.comb += [unit.node.eq(self.node), unit.time_base.eq(time), unit.open.eq(may)]
            wiring.connect(inner, slot, unit.free)
            wiring.connect(inner, unit.launch, launches.i)
        wiring.connect(inner, transmitter.flying, *(unit.flying for unit, _, _ in accepts))

        def joined(name: str):
            """This output of the accept that acts."""
            own = getattr(accept, name)
            if not system.ni.control_slots:
                return own
            return own.shape()(Mux(control.acts, getattr(control, name), own))

        for port, name in ((table.store, "store"), (table.begin, "begin"), (payloads.write, "write")):
            own = getattr(accept, name)
            if system.ni.control_slots:
                # A port is read only when it is told something, so each has a wire of its own: one would go too far.
                first, told = getattr(control, name), {"store": control.begun, "write": control.writes}
                inner.d.comb += [
                    getattr(port, part).eq(Mux(told.get(name, control.acts), getattr(first, part), getattr(own, part)))
                    for part in port.signature.members
                ]
            else:
                wiring.connect(inner, own, port)
        accepted = joined("accepted")

        # Transmit.
        wiring.connect(inner, replies.o, transmitter.replies)
        wiring.connect(inner, repeats.o, transmitter.repeats)
        wiring.connect(inner, news.o, transmitter.news)
        if system.ni.control_slots:
            wiring.connect(inner, controls.o, transmitter.controls)
        wiring.connect(inner, transmitter.peek, table.peek)
        wiring.connect(inner, transmitter.payload, payloads.read)
        wiring.connect(inner, transmitter.judged, table.judged, action.judged)
        wiring.connect(inner, transmitter.push, send_ladder.push)
        wiring.connect(inner, transmitter.finish, action.finish)
        if system.measured:
            wiring.connect(inner, transmitter.stamp, round_trip.stamp)
            wiring.connect(inner, transmitter.wait, round_trip.send)
            wiring.connect(inner, action.wait, round_trip.ack)
            wiring.connect(inner, action.release, round_trip.release)
        if system.timers.jitter_bits:
            m.submodules.draws = draws = Draws()
            m.d.comb += [draws.seed.eq(self.seed), draws.take.eq(transmitter.push.valid & ~self.node_reset)]
            inner.d.comb += transmitter.jitter.eq(draws.draw)

        # Receive and act.
        wiring.connect(inner, receiver.arrival, action.arrival)
        wiring.connect(inner, send_ladder.hold, action.repeat_hold)
        wiring.connect(inner, ack_ladder.hold, action.ack_hold)
        wiring.connect(inner, action.look, table.look)
        wiring.connect(inner, action.end, table.end)
        wiring.connect(inner, action.look_set, received.look)
        wiring.connect(inner, action.update, received.update)
        wiring.connect(inner, action.push, ack_ladder.push)
        wiring.connect(inner, action.reply, replies.i)
        wiring.connect(inner, action.repeat, repeats.i)
        wiring.connect(inner, action.ended, completions.ended)
        wiring.connect(inner, completions.taken, free.taken)
        if system.linger:
            wiring.connect(inner, free.rested, action.rested)
            inner.d.comb += free.lingers.eq(action.lingers)
        for fifo, fill, verdict in zip(fifos, receiver.fill, action.verdict, strict=True):
            wiring.connect(inner, fill, fifo.fill)
            wiring.connect(inner, verdict, fifo.verdict)

        # The host.
        host = self.host
        sinks = [(host.send, accept.send), (host.send_data, accept.send_data), (host.cancel, action.cancel)]
        if system.ni.control_slots:
            sinks += [(host.send_control, control.send), (host.send_control_data, control.send_data)]
        if system.ni.sweep:
            sinks.append((host.sweep, action.sweep))
        for port, sink in sinks:
            inner.d.comb += [sink.valid.eq(port.valid), sink.payload.eq(port.payload)]

        idle = (
            ready
            & (busy == 0)
            & received.none
            & replies.empty
            & transmitter.resting
            & ~(receiver.busy | action.waiting)
            & Cat(fifo.empty for fifo in fifos).all()
        )

        # Out, unless the node is being reset.
        def gated(port, value):
            with m.If(~self.node_reset):
                m.d.comb += port.eq(value)

        gated(host.idle, idle)
        gated(host.ready, ready)
        gated(self.time_base, time)
        gated(self.link_o, transmitter.link_o)
        gated(host.accepted, accepted)
        for port, sink in sinks:
            gated(port.ready, sink.ready)
        if system.ni.acceptance:
            gated(host.arrival, receiver.announced)
            gated(host.delivered, action.delivered)
            inner.d.comb += action.refusal.eq(host.refusal)
        if system.ni.merge_bits:
            gated(host.merge, transmitter.merge)
            inner.d.comb += [
                transmitter.merge_word.eq(host.merge_word),
                transmitter.merge_mask.eq(host.merge_mask),
            ]
        if self._dump:
            inner.d.comb += [
                action.dump.valid.eq(self.dump.valid),
                action.dump.payload.eq(self.dump.payload),
            ]
            gated(self.dump.ready, action.dump.ready)
            m.d.comb += self.dumped.eq(action.dumped)
            gated(self.dumped_valid, action.dumped_valid)
        sources = [completions.completion, *(port for fifo in fifos for port in (fifo.deliver, fifo.deliver_data))]
        for port, source in zip(
            [host.completion, *deliver_streams(HostPort.of_ni(system), host)], sources, strict=True
        ):
            gated(port.valid, source.valid)
            m.d.comb += port.payload.eq(source.payload)
            inner.d.comb += source.ready.eq(port.ready)
        takes = [(fifo.deliver.valid & fifo.deliver.ready, fifo.deliver.payload) for fifo in fifos]

        if self._watch:
            lanes = self._lanes(accepted, joined("shown"), transmitter, receiver, action, completions, takes)
            more = [word for take in takes[1:] for word in self._take_lane(*take)]
            self._trace(m, lanes, more, fifos)

        if system.ni.statistics:
            pulses = {
                Counter.REPLIES_DROPPED: action.lost_reply,
                Counter.FRAGMENTS: receiver.fragment,
                Counter.ACCEPTED: accepted.valid,
                Counter.COMPLETED: completions.taken.valid,
            }
            self._count(m, transmitter.shown.event, action.shown, pulses)
        return m

    def _trace(self, m, lanes, more, fifos):
        """The trace words: ``lanes`` before flags, flit and beat, ``more`` behind them."""
        host, beat = self.host, self.host.deliver_data
        flags = Cat(
            self.link_o.valid, self.link_o.first, self.link_o.last, host.idle, host.send.ready, host.send_data.ready,
            host.deliver.valid, beat.valid, beat.payload.last & beat.valid, host.completion.valid,
            *((host.send_control.ready, host.send_control_data.ready) if self._system.ni.control_slots else ()),
        )  # fmt: skip
        shown = Mux(beat.valid, beat.payload.data, 0)
        words = [*lanes, padded(flags, WORD_BITS), padded(self.link_o.data, 128), padded(shown, 128), *more]
        with m.If(~self.node_reset):
            m.d.comb += self.watch.eq(Cat(words))

        # A reset says what it loses.
        resetting = Signal()
        m.d.sync += resetting.eq(self.node_reset)
        with m.If(self.node_reset & ~resetting):
            lost = sum(fifo.waiting for fifo in fifos)
            m.d.comb += self.watch[2 * WORD_BITS : 3 * WORD_BITS].eq(event_word(Const(Event.RESET, 8), length=lost))

    def _lanes(self, accepted, shown, transmitter, receiver, action, completions, takes):
        """The words of the lanes that every NI has."""
        sent, acted = transmitter.shown, action.shown
        ended = completions.completion.payload
        return [
            event_word(sent.event, detail=sent.tries, peer=sent.peer, length=sent.length),
            uid_word(sent.source, sent.incarnation, sent.slot, sent.generation),
            event_word(acted.event, detail=acted.detail, peer=acted.peer, length=acted.length),
            uid_word(acted.source, acted.incarnation, acted.slot, acted.generation),
            when(
                accepted.valid,
                event_word(
                    Const(Event.ACCEPT, 8),
                    detail=Mux(shown.best_effort, Kind.BE, Kind.SEND),
                    peer=shown.destination,
                    length=shown.length,
                    extra=accepted.tag,
                ),
            ),
            when(
                accepted.valid,
                uid_word(self.node, self.incarnation, accepted.slot, accepted.generation),
            ),
            when(
                completions.taken.valid,
                event_word(
                    Const(Event.COMPLETE, 8),
                    detail=Cat(padded(ended.cause, CAUSE_BITS), ended.status),
                    peer=ended.destination,
                    extra=ended.tag,
                ),
            ),
            when(completions.taken.valid, uid_word(self.node, self.incarnation, ended.slot, ended.generation)),
            *self._take_lane(*takes[0]),
            when(receiver.fragment, event_word(Const(Event.FRAGMENT, 8))),
            Const(0, WORD_BITS),
        ]

    def _take_lane(self, taken, record):
        """The two words of the take lane of one deliver FIFO."""
        incarnation = record.incarnation if self._system.ni.source_incarnation else 0
        word = event_word(Const(Event.TAKE, 8), detail=incarnation, peer=record.source, length=record.length)
        return when(taken, word), Const(0, WORD_BITS)

    def _count(self, m, sent: Value, acted, pulses: dict[Counter, Value]):
        """What the lanes tx and rx show, and what has a pulse of its own, goes to the statistics one cycle later."""
        counted = {counter: COUNTED[counter] for counter in self._system.counters if counter in COUNTED}
        lanes = [
            [counter for counter, (event, _) in counted.items() if EVENTS[event].lane == lane]
            for lane in (LANE_TX, LANE_RX)
        ]
        since = since_bits(self._system) if self._snapshot else 0
        m.submodules.statistics = statistics = Statistics(
            counters=self._system.counter_addresses, lanes=lanes, since=since
        )
        if since:
            m.d.comb += [statistics.walk.eq(self.counter_walk), self.counter_since.eq(statistics.since)]
        m.d.comb += [statistics.address.eq(self.counter_address), self.counter_data.eq(statistics.data)]
        for counter, pulse in pulses.items():
            m.d.sync += statistics.pulse[counter].eq(pulse & ~self.node_reset)
        drop, reason = Signal(Drop), acted.detail[: len(Value.cast(Const(max(Drop), Drop)))]
        m.d.sync += drop.eq(reason)
        for port, counters, shown in zip(statistics.lanes, lanes, (sent, acted.event), strict=True):
            event = Signal.like(shown)
            m.d.sync += event.eq(Mux(self.node_reset, Event.NOTHING, shown))
            # At most one counts, so that their numbers can be added bit by bit.
            number = Const(0, len(port.counter) + 1)
            for happening in sorted({counted[counter][0] for counter in counters}):
                named = Const(0, len(number))
                for counter in counters:
                    if counted[counter][0] == happening:
                        own = Const(counter << 1 | 1, len(number))
                        why = counted[counter][1]
                        named = named | (own & (drop == why).replicate(len(own)) if why else own)
                number = number | (named & (event == happening).replicate(len(number)))
            m.d.comb += Cat(port.valid, port.counter).eq(number)
