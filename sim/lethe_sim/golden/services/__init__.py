"""Services between an NI and its host (section 10): what is stacked on the NIs, one file per service.

A service is a module (or anything) with some of these functions of a `site.Site`, which has its two ports; `MODELS`
names it as the specification does.  What it leaves out passes, or is nothing.

=============  ==========  ======================================================================================
function       levels      what it does
=============  ==========  ======================================================================================
``offer``      downwards   what it offers below, from what it is offered above; must change no state
``show``       upwards     what it shows above, from what it is shown below and offered above; must change no state
``take``       downwards   what it is ready to take below, from what is taken above; must change no state
``step``       upwards     after the NI's step: its own state and events; both ports are as they were in the cycle
``reset``      upwards     a cycle in which the node is reset, instead of all of the above
``idle``       upwards     whether nothing is under way in it
``next_look``  upwards     the next cycle in which it has something to do by itself, or to offer; `NEVER` without
``outputs``    upwards     ``outputs(site, row, at)``: its flags and its beat, into the trace words from ``at`` on
``rests``      upwards     whether all passes it in this cycle, it shows nothing of its own, and does nothing by
                           itself until something is offered to it: a matter of its state and of what is offered above
``rests_until`` upwards    while all rest: the next cycle in which it has something to do by itself; `NEVER` without
``withholds``  highest     after `step`: which of the host's record and beat (`Flow`) it takes not before it has stepped
                           again; a service can rest while these are offered, and then nothing is to the NI
``leaves``     lowest      after `step`: the NI's deliver FIFOs, a bit each, and completions (`LEFT_COMPLETIONS`), of
                           which it takes nothing before it has stepped again; a service can rest while these show
                           something
``passed``     upwards     ``passed(site, done)``: after a cycle in which it rested, what passed, as `Flow`
=============  ==========  ======================================================================================

With an acceptance port a service sees `arrival` and `delivered` in ``below.shows`` (the word of an arrival behind
``below.beats``), in `step` or `show`, and says ``below.drives.refusal`` in `offer`.  With a merge port it sees `merge`
there, and puts word and mask into ``below.beat`` from `MERGE` on, in `offer`.  It sweeps by
``below.drives.sweep_valid`` and ``sweep_source``, in `offer`, until ``below.shows.sweep_ready``.  A port that a service
keeps to itself its `above` leaves out (`lethe.spec.services`): the NI then wakes it for what it tells or asks there,
and it does not rest.

In a cycle in which all services of a node rest, its stack is left out of the step, and host and NI share a port: both
of the site, of which only what is offered may be read.  A service without ``rests`` never rests.

Beside these, ``numbers(system, below)`` is an int64 array, what each node's service begins with, and
``words(system, below)`` how many 64-bit words it has; ``below`` is the port below (`lethe.spec.ports.HostPort`).
``COUNTED``, if there is one, names counters that no event tells, and at which of its numbers each is kept.
"""

from typing import Any

from . import flow, loop, relay

#: The model of each service, by its name in `lethe.spec.services`.
MODELS: dict[str, Any] = {"relay": relay, "loop": loop, "flow": flow}
