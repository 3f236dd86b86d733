"""A throwaway service: a node's datagrams are delivered in their order, since one at a time is under way.

It takes a record only when the completion of the datagram before it has been taken, and gives no slot of its own.
"""

from types import SimpleNamespace

import numpy as np

from lethe.spec.events import LoopCounter, Unit
from lethe.spec.services import Service
from lethe_sim.golden.compile import jit
from lethe_sim.golden.record import Record
from lethe_sim.golden.services import site

ORDER = Service(
    name="order", unit=Unit.LOOP, lanes=(), flag_bits=(), counters=LoopCounter, named=lambda system: True,
    above=lambda system, below: below, size=lambda system: "",
)  # fmt: skip


class Order(Record):
    """Whether a datagram is under way, from its record on."""

    busy: int


@jit
def _offer(s):
    site.pass_offers(s)
    if Order(s.numbers).busy:
        site.withdraw_record(s.below)


@jit
def _show(s):
    site.pass_shown(s)
    if Order(s.numbers).busy:
        s.above.shows.send_ready = 0


@jit
def _step(s):
    order = Order(s.numbers)
    if site.takes_record(s.above):
        order.busy = 1
    if site.takes_completion(s.above):
        order.busy = 0


@jit
def _reset(s):
    Order(s.numbers).busy = 0


@jit
def _idle(s):
    return Order(s.numbers).busy == 0


MODEL = SimpleNamespace(
    numbers=lambda system, below: np.zeros(Order.size, np.int64), words=lambda system, below: 0,
    offer=_offer, show=_show, step=_step, reset=_reset, idle=_idle,
)  # fmt: skip
