"""A node's host of whichever kind (``k.host``): generator and checker, script host, or driven from outside."""

from lethe_sim.golden.compile import jit
from lethe_sim.golden.ni import host_port
from lethe_sim.golden.state import EXTERNAL, GENERATOR, SCRIPT

from . import checker, generator, script_host
from .generator import Generator


@jit
def start(host, port):
    """As after system reset, for every kind; completions are always taken."""
    host.state = 0  # START or RECORD
    port.completion_ready = 1


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
    for fifo in range(k.fifos):
        if not host_port.stalls_stream(flags, 2 * fifo):
            port.deliver_ready |= 1 << fifo
        if not host_port.stalls_stream(flags, 2 * fifo + 1):
            port.deliver_data_ready |= 1 << fifo


@jit
def take(k, ni, data, host, port, letters, letter_data, cycle):
    """Take what the NI delivers in ``cycle``, unless stalled."""
    if k.host == EXTERNAL:
        return
    port.deliver_ready, port.deliver_data_ready = 0, 0
    if host.stalled:
        return
    if k.host == GENERATOR:
        checker.take(k, ni, data, host, port, cycle)
    else:
        script_host.take(k, ni, data, port, letters, letter_data, cycle)


@jit
def follow(k, ni, host, port, items, cycle, done):
    """The host's next state, after a cycle in which the NI did ``done`` (`Flow`)."""
    if k.host == GENERATOR:
        generator.follow(k, host, cycle, host_port.ready_from(ni), done)
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
def next_offer(k, ni, host, items, cycle):
    """The next cycle in which the host itself changes or offers something."""
    if k.host == GENERATOR:
        return generator.next_offer(k, ni, host, cycle)
    return script_host.next_offer(k, ni, host, items, cycle)
