"""A node's host of whichever kind (``k.host``): generator and checker, script host, or driven from outside."""

from lethe_sim.golden.compile import jit
from lethe_sim.golden.ni import host_port
from lethe_sim.golden.state import EXTERNAL, GENERATOR, SCRIPT

from . import checker, generator, script_host
from .generator import Generator


@jit
def start(k, host, port):
    """As after system reset, for every kind; completions and notices are always taken, and all ports are read."""
    host.state = 0  # START or RECORD
    port.completion_ready = port.notice_ready = 1
    port.receive_mask = (1 << k.flow_ports) - 1


@jit
def present(k, host, port, beat, items, item_data, cycle):
    """Put what the host offers in ``cycle`` on its port."""
    if k.host == GENERATOR:
        generator.present(k, host, port, beat)
    elif k.host == SCRIPT:
        script_host.present(k, host, port, beat, items, item_data, cycle)


@jit
def drive(k, host, port, beat, words):
    """Put what stimulus words say on the port of a host that is driven from outside."""
    flags = host_port.read_words(k, port, beat, words)
    port.deliver_ready = port.deliver_data_ready = 0
    if host.stalled or host_port.stalls_deliveries(flags):
        return
    for number in range(k.streams):
        if not host_port.stalls_stream(flags, 2 * number):
            port.deliver_ready |= 1 << number
        if not host_port.stalls_stream(flags, 2 * number + 1):
            port.deliver_data_ready |= 1 << number


@jit
def take(stack, k, ni, data, host, port, letters, letter_data, cycle):
    """Take what is delivered in ``cycle``, unless stalled."""
    if k.host == EXTERNAL:
        return
    port.deliver_ready, port.deliver_data_ready = 0, 0
    if host.stalled:
        return
    if k.host == GENERATOR:
        checker.take(stack, k, ni, data, host, port, cycle)
    else:
        script_host.take(stack, k, ni, data, port, letters, letter_data, cycle)


@jit
def follow(stack, k, ni, host, port, items, cycle, done):
    """The host's next state, after a cycle in which the port did ``done`` (`Flow`)."""
    if k.host == GENERATOR:
        starts = host.state == generator.Generator.START
        generator.follow(k, host, cycle, stack.ready_from(k, ni, cycle) if starts else cycle, done)
    elif k.host == SCRIPT:
        script_host.follow(k, host, port, items, done)


@jit
def reset(k, ni, host, cycle):
    """A cycle in which the NI is in reset."""
    if k.host == GENERATOR:
        generator.reset(k, host, cycle)
        checker.reset(host)
    elif k.host == SCRIPT:
        script_host.reset(k, ni, host)


@jit
def finished(k, host):
    """Whether a host has nothing more to send."""
    if k.host == GENERATOR:
        return host.state == Generator.DONE
    return k.host == EXTERNAL or script_host.finished(host)


@jit
def next_offer(stack, k, ni, host, items, cycle):
    """The next cycle in which the host itself changes or offers something."""
    if k.host == GENERATOR:
        return generator.next_offer(stack, k, ni, host, cycle)
    return script_host.next_offer(stack, k, ni, host, items, cycle)
