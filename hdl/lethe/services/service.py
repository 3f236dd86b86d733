"""What all services have in common: a host port below, a host port above, and what they show (cycle contract, 10)."""

import abc
from collections.abc import Sequence
from dataclasses import dataclass

from amaranth.hdl import Cat, Const, Module, Mux, ResetInserter, Signal, Value, ValueLike
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from lethe.host import host_signature
from lethe.ni.watch import event_word, padded
from lethe.ports import passed
from lethe.spec.config import System
from lethe.spec.events import Event
from lethe.spec.ports import HostPort
from lethe.spec.services import Service
from lethe.spec.trace import WORD_BITS

__all__ = ["ServiceTrace", "ServiceUnit"]


@dataclass(frozen=True, kw_only=True)
class ServiceTrace:
    """What a service shows in each cycle.

    Attributes
    ----------
    pulses : a bit for each counter
    lanes : event word and UID word of each lane, 0 when nothing happened
    flags : a bit for each of `Service.flag_bits`
    beat : a stream of beats, whose data are shown while it is valid
    reset, lost : an event of the first cycle of its reset, on lane 0, and its length
    """

    pulses: Sequence[ValueLike]
    lanes: Sequence[tuple[Value, Value]] = ()
    flags: Sequence[ValueLike] = ()
    beat: stream.Interface | None = None
    reset: Event | None = None
    lost: ValueLike = 0


class ServiceUnit(wiring.Component, abc.ABC):
    """A service of a node.  Its class says what it does in `serve`; whatever that does not mention, passes.

    A service has no gates of its own for a reset: in its cycles all of the port above is 0.  So a transfer above is
    ``valid & ready`` of that port.

    Parameters
    ----------
    system : the configuration
    port : what is below
    watch : whether there is ``watch``

    Members
    -------
    node, incarnation : In
        Of the NI.
    node_reset : In(1)
        The NI is being reset.
    service_reset : In(1)
        And the service, too: all its state is as after system reset from the next cycle on.
    boot : In(32), if it is ``booted``
        Number of resets of the node so far; it never wraps, and changes with the first cycle of a reset.
    below : In(`host_signature`)
        To the NI, or the next service below.
    above : Out(`host_signature`)
        To the host, or the next service above.
    counts : Out(counters), with ``ni.statistics``
        A bit for each counter, in the cycle after what it counts.
    watch : Out(64 · `Service.words`)
        Trace words, word 0 lowest.
    """

    #: What the specification knows of it.
    service: Service
    #: Whether it has ``boot``; whether a reset of the NI alone resets it, too.
    booted = False
    resets_with_ni = False
    #: Members of the port above that it makes itself: nothing passes there.
    made: Sequence[str] = ()

    def __init__(self, system: System, port: HostPort, *, watch: bool = True):
        self.system, self.port = system, port
        form = system.format
        members = {
            "node": In(form.node_bits),
            "incarnation": In(form.incarnation_bits),
            "node_reset": In(1),
            "service_reset": In(1),
            "below": In(host_signature(system, port)),
            "above": Out(host_signature(system, self.service.above(system, port))),
        }
        if self.booted:
            members["boot"] = In(32)
        if system.ni.statistics:
            members["counts"] = Out(len(self.service.counted(system)))
        if watch:
            members["watch"] = Out(WORD_BITS * self.service.words)
        super().__init__(members)

    @abc.abstractmethod
    def serve(self, m: Module) -> ServiceTrace:
        """Adds to ``m``, where everything passes already: a later statement for a signal replaces an earlier one.

        All registers in ``m`` are reset with the service.
        """

    def elaborate(self, platform):
        m, inner = Module(), Module()
        reset = self.node_reset if self.resets_with_ni else self.service_reset
        m.submodules.core = ResetInserter(reset)(inner)
        passed(inner, self.below, self.above, made=self.made)
        shown = self.serve(inner)
        with inner.If(self.node_reset):
            _silence(inner, self.above.signature.members, self.above)

        if self.system.ni.statistics:
            m.d.sync += self.counts.eq(Mux(self.node_reset, 0, Cat(shown.pulses)))
        if "watch" in self.signature.members:
            words = [word for lane in shown.lanes for word in lane]
            beat = Mux(shown.beat.valid, shown.beat.payload.data, 0) if shown.beat is not None else 0
            with m.If(~self.node_reset):
                m.d.comb += self.watch.eq(Cat(*words, padded(Cat(shown.flags), WORD_BITS), padded(beat, 2 * WORD_BITS)))
            if shown.reset is not None:
                resetting = Signal()
                m.d.sync += resetting.eq(reset)
                with m.If(reset & ~resetting):
                    m.d.comb += self.watch.eq(event_word(Const(shown.reset, 8), length=shown.lost))
        return m


def _silence(m: Module, members: wiring.SignatureMembers, above) -> None:
    """All outputs of the port ``above`` are 0, but for the payloads of streams."""
    for name, member in members.items():
        port = getattr(above, name)
        if not member.is_port:
            m.d.comb += (port.valid if member.flow == Out else port.ready).eq(0)
        elif member.flow == Out:
            m.d.comb += Value.cast(port).eq(0)
