"""Stacks of services, composed: what a cycle asks of a node's NI, or of the stack on it.

Without services the functions are the NI's own, and compiled code is what it would be if there were none.  With
services the ports of a node are worked out when it is stepped (`arrange`), and are then the same for host, services and
NI.  In a cycle in which all services of a node rest, no port is: the host's is the NI's.
"""

import hashlib
import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lethe.spec.config import System
from lethe.spec.ports import HostPort as PortShape
from lethe.spec.services import Service
from lethe_sim.golden.compile import Functions, apart, at, jit
from lethe_sim.golden.ni import host_port, showing
from lethe_sim.golden.ni import ni as interface
from lethe_sim.golden.ni.host_port import Flow
from lethe_sim.golden.state import NEVER, HostPort

from . import MODELS, site
from .site import port_at, resting_site_of, site_of


@jit
def _nothing(*_):
    return None


@jit
def _yes(*_):
    return True


@jit
def _no(*_):
    return False


@jit
def _never(*_):
    return NEVER


@jit
def _none(*_):
    return 0


#: What a service does that has no such function.
_DEFAULTS: dict[str, Any] = {
    "offer": site.pass_offers, "show": site.pass_shown, "take": site.pass_readies, "step": _nothing,
    "reset": _nothing, "idle": _yes, "next_look": _never, "outputs": _nothing,
    "rests": _no, "rests_until": _never, "withholds": _none, "leaves": _none, "passed": _nothing,
}  # fmt: skip


def below(system: System) -> list[PortShape]:
    """The port below each service of the stack, from the NI upwards."""
    ports = [PortShape.of_ni(system)]
    for service in system.services:
        ports.append(service.above(system, ports[-1]))
    return ports[:-1]


def memory(system: System) -> list[tuple[np.ndarray, int]]:
    """Of each service of the stack the numbers that it begins with, and how many words it has."""
    services = [(MODELS[service.name], port) for service, port in zip(system.services, below(system), strict=True)]
    return [(model.numbers(system, port), model.words(system, port)) for model, port in services]


_stacks: dict[str, Functions] = {}


def stack_of(services: Sequence[Service]) -> Functions:
    """The functions of nodes with these services."""
    models = [{name: getattr(MODELS[s.name], name, f) for name, f in _DEFAULTS.items()} for s in services]
    name = " ".join(("ni", *(f"{s.name}-{_sources(m)}" for s, m in zip(services, models, strict=True))))
    if name not in _stacks:
        functions = _stacked(models) if models else _BARE
        _stacks[name] = Functions(name, **functions)
    return _stacks[name]


def _sources(model: dict[str, Any]) -> str:
    """A digest of the files of a service, which need not be this package's."""
    files = {inspect.getfile(getattr(function, "py_func", function)) for function in model.values()}
    return hashlib.sha256(b"".join(Path(file).read_bytes() for file in sorted(files))).hexdigest()[:16]


def _each(functions: Sequence[tuple[int, Any]]) -> Any:
    """Call a function of each level, in this order."""
    if not functions:
        return _nothing
    (level, function), rest = functions[0], _each(functions[1:])

    @jit
    def call(k, ni, data, ev, cycle):
        function(site_of(k, ni, data, ev, cycle, level))
        rest(k, ni, data, ev, cycle)

    return call


def _all(functions: Sequence[tuple[int, Any]], last: Any, place: Any = site_of) -> Any:
    """Whether a function of each level says so, and ``last`` of the NI."""
    if not functions:
        return last
    (level, function), rest = functions[0], _all(functions[1:], last, place)

    @jit
    def call(k, ni, data, ev, cycle):
        return rest(k, ni, data, ev, cycle) and function(place(k, ni, data, ev, cycle, level))

    return call


def _least(functions: Sequence[tuple[int, Any]], place: Any = site_of) -> Any:
    """The least that a function of each level says."""
    if not functions:
        return _never
    (level, function), rest = functions[0], _least(functions[1:], place)

    @jit
    def call(k, ni, data, ev, cycle):
        return min(rest(k, ni, data, ev, cycle), function(place(k, ni, data, ev, cycle, level)))

    return call


def _passed(functions: Sequence[tuple[int, Any]]) -> Any:
    """Tell each level what passed it while all rest."""
    if not functions:
        return _nothing
    (level, function), rest = functions[0], _passed(functions[1:])

    @jit
    def call(k, ni, data, ev, cycle, done):
        function(resting_site_of(k, ni, data, ev, cycle, level), done)
        rest(k, ni, data, ev, cycle, done)

    return call


def _outputs(functions: Sequence[tuple[int, Any]], idle: Sequence[tuple[int, Any]]) -> Any:
    """The flags and beats of each level, among the trace words of a cycle; only there ports show whether they are idle:
    a port above is if the one below is, and the service between them.
    """
    if not functions:
        return _nothing
    (level, function), (_, idles), rest = functions[0], idle[0], _outputs(functions[1:], idle[1:])

    @jit
    def call(k, ni, data, ev, cycle, row):
        here = site_of(k, ni, data, ev, cycle, level)
        here.above.shows.idle = here.below.shows.idle and idles(here)
        function(here, row, k.service_base + ni.number * k.service_words + k.rooms[level].at_words)
        rest(k, ni, data, ev, cycle, row)

    return call


def _stacked(models: list[dict[str, Any]]) -> dict[str, Any]:
    """The functions of a node with services, as `_BARE`."""
    levels = {name: [(level, model[name]) for level, model in enumerate(models)] for name in _DEFAULTS}
    offers, shows = _each(levels["offer"][::-1]), _each(levels["show"])
    ups = _outputs(levels["outputs"], levels["idle"])
    takes, steps = _each(levels["take"][::-1]), _each(levels["step"])
    rests, passed = _all(levels["rests"], _yes, resting_site_of), _passed(levels["passed"])
    withholds, highest = models[-1]["withholds"], len(models) - 1
    leaves = models[0]["leaves"]
    may_withhold, may_leave = withholds is not _none, leaves is not _none
    own_look, resting_look = _least(levels["next_look"]), _least(levels["rests_until"], resting_site_of)

    @apart
    def ports(k, ni, data, ev, cycle):
        offers(k, ni, data, ev, cycle)
        showing.show(k, ni, data, cycle, port_at(k, ni, data, 0))
        shows(k, ni, data, ev, cycle)

    @jit
    def arrange(k, ni, data, ev, cycle):
        ni.rests = not (k.kept and host_port.asks(k, ni, cycle)) and rests(k, ni, data, ev, cycle)
        if not ni.rests:
            ports(k, ni, data, ev, cycle)

    @apart
    def services_step(k, ni, data, ev, cycle):
        steps(k, ni, data, ev, cycle)
        if may_withhold:
            ni.withheld = withholds(site_of(k, ni, data, ev, cycle, highest))
        if may_leave:
            ni.left = leaves(site_of(k, ni, data, ev, cycle, 0))
        return moved(k, port_at(k, ni, data, k.services))

    @jit
    def step(k, ni, data, ev, cycle):
        at_port, at_beat = k.at_top, k.at_top_data
        if not ni.rests:
            at_port, at_beat = k.at_port, k.at_beat
            takes(k, ni, data, ev, cycle)
        elif ni.withheld and host_offers(HostPort(ni, k.at_top)):
            at_port, at_beat = k.at_port, k.at_beat
            site.offer_nothing(k, port_at(k, ni, data, 0), HostPort(ni, k.at_top))
        done = interface.step(k, ni, data, ev, HostPort(ni, at_port), at(data, at_beat), cycle)
        if ni.rests:
            passed(k, ni, data, ev, cycle, done)
            return done
        return done & Flow.SHOWING | services_step(k, ni, data, ev, cycle)

    @jit
    def outputs(k, ni, data, ev, cycle, row):
        port_at(k, ni, data, 0).shows.idle = interface.idle(k, ni, cycle)
        ups(k, ni, data, ev, cycle, row)

    @jit
    def next_look(k, ni, data, ev, cycle):
        own = resting_look(k, ni, data, ev, cycle) if ni.rests else own_look(k, ni, data, ev, cycle)
        # The next step asks the NI itself.
        return own if own == cycle + 1 else min(own, interface.next_look(k, ni, cycle, ni.left if may_leave else 0))

    return {
        "ports": ports,
        "arrange": arrange,
        "step": step,
        "reset": _each(levels["reset"]),
        "idle": _all(levels["idle"], _ni_idle),
        "next_look": next_look,
        "outputs": outputs,
        "ready_from": _ready_from,
        "next_send": _next_send,
        "next_beat": _next_beat,
        "deliver_valid": _deliver_valid,
        "deliver_record": _deliver_record,
        "deliver_data_valid": _deliver_data_valid,
        "deliver_beat": _deliver_beat,
    }


@jit
def moved(k, port):
    """Which streams of the sender moved at a port, as `Flow`."""
    done = 0
    if site.takes_record(port) or (k.control_slots > 0 and port.control.send_valid and port.shows.control_ready):
        done |= Flow.SEND
    if site.takes_beat(port) or (k.control_slots > 0 and port.control.data_valid and port.shows.control_data_ready):
        done |= Flow.DATA
    if port.shows.accepted_valid:
        done |= Flow.ACCEPTED
    return done


@jit
def _ni_step(k, ni, data, ev, cycle):
    return interface.step(k, ni, data, ev, HostPort(ni, k.at_port), at(data, k.at_beat), cycle)


@jit
def _ni_idle(k, ni, data, ev, cycle):
    return interface.idle(k, ni, cycle)


@jit
def _ni_next_look(k, ni, data, ev, cycle):
    return interface.next_look(k, ni, cycle)


@jit
def _soon(k, ni, cycle):
    return cycle + 1


@jit
def host_offers(port):
    """Whether a record or a beat is offered on a host's port."""
    return port.send_valid or port.data_valid


@jit
def _ni_ready_from(k, ni, cycle):
    return host_port.ready_from(ni)


_BARE: dict[str, Any] = {
    "ports": _nothing,
    "arrange": _nothing,
    "step": _ni_step,
    "reset": _nothing,
    "idle": _ni_idle,
    "next_look": _ni_next_look,
    "outputs": _nothing,
    "ready_from": _ni_ready_from,
    "next_send": host_port.next_send,
    "next_beat": _soon,
    "deliver_valid": host_port.deliver_valid,
    "deliver_record": host_port.deliver_record,
    "deliver_data_valid": host_port.deliver_data_valid,
    "deliver_beat": host_port.deliver_beat,
}


@jit
def _ready_from(k, ni, cycle):
    if ni.rests:
        return host_port.ready_from(ni)
    return cycle if site.shown_at(k, ni, k.services).ready else max(cycle + 1, host_port.ready_from(ni))


@jit
def _next_send(k, ni, cycle, control):
    if ni.withheld & Flow.SEND and control == 0:
        return NEVER
    # A record that waits since this cycle wakes no service; one that has not been offered yet may.
    if ni.rests and host_port.context(HostPort(ni, k.at_top), control).send_valid:
        return host_port.next_send(k, ni, cycle, control)
    return cycle + 1


@jit
def _next_beat(k, ni, cycle):
    return NEVER if ni.withheld & Flow.DATA else cycle + 1


@jit
def _deliver_valid(k, ni, cycle, stream):
    if ni.rests:
        return stream < k.fifos and not ni.left >> stream & 1 and host_port.deliver_valid(k, ni, cycle, stream)
    return site.delivery_at(k, ni, k.services, stream).valid


@jit
def _deliver_record(k, ni, stream):
    if ni.rests:
        return host_port.deliver_record(k, ni, stream)
    delivery = site.delivery_at(k, ni, k.services, stream)
    return delivery.source, delivery.incarnation, delivery.cls, delivery.length


@jit
def _deliver_data_valid(k, ni, cycle, stream):
    if ni.rests:
        return stream < k.fifos and not ni.left >> stream & 1 and host_port.deliver_data_valid(k, ni, cycle, stream)
    return site.delivery_at(k, ni, k.services, stream).data_valid


@jit
def _deliver_beat(k, ni, data, stream):
    if ni.rests:
        return host_port.deliver_beat(k, ni, data, stream)
    beats = port_at(k, ni, data, k.services).beats
    return beats[2 * stream], beats[2 * stream + 1], site.delivery_at(k, ni, k.services, stream).last
