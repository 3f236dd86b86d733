"""Records at the NI's ports and between its units, derived from the configuration."""

from amaranth.lib import data

from lethe.host import host_records
from lethe.spec.config import System
from lethe.spec.ports import STATUS_BITS, TRIES_BITS, cause_bits

from .distance import class_bits

__all__ = ["Records"]


class Records:
    """All record layouts of one system.

    Those at the host port are `lethe.host.host_records`.

    Attributes
    ----------
    slot, set, rung : numbers
    send : the host's request
    deliver : what goes before a delivered payload
    beat : a delivered payload flit
    completion : how a datagram ended
    cancel, free : a slot in one of its lives
    accepted : the accept event, ``valid`` for one cycle
    launch : an entry of the new queue
    token : {slot, generation, tries} of the Send ladder; with ``timers.path_after`` the path of the Send, too
    repeat : an entry of the repeat queue: slot, generation, tries, and the rung it will wait on
    ack_token : a token of the Ack ladder
    reply : an Ack, Forget or REJECT that waits for the link
    finish : a datagram that ends by itself
    merge : a Send or BE that was granted the link
    arrival, sweep : a data message that has arrived, and a source to sweep away; empty without these options
    entry, entries : an entry of the receive table, and all of a set
    header : the fields of a Send, by their names on the wire
    fields : what the send table keeps of a record
    looked, peeked : what its two readers see of a slot
    dump : the state dump: one slot and one set
    """

    def __init__(self, system: System):
        form = system.format
        slot, generation = {"slot": form.slot_bits}, {"generation": form.generation_bits}
        life = {**slot, **generation}
        own_slot = {"slot": range(system.ni.slots), **generation}
        self.way_bits = max(1, (system.ni.ways - 1).bit_length())
        path = {"path": form.path_bits} if form.path_bits else {}
        uid = {"source": form.node_bits, **life, "incarnation": form.incarnation_bits}
        self.slot = range(system.ni.slots)
        self.rung = range(max(2, system.rungs))
        self.set = range(max(2, system.ni.sets))
        host = host_records(system)
        self.send, self.deliver, self.beat = host["send"], host["deliver"], host["beat"]
        self.completion, self.accepted, self.entry = host["completion"], host["accepted"], host["entry"]
        self.merge = host["merge"]
        self.arrival, self.sweep = (host.get(name, data.StructLayout({})) for name in ("arrival", "sweep"))
        self.cancel = self.free = self.launch = host["cancel"]
        launched = {**own_slot, "tries": TRIES_BITS}
        self.token = data.StructLayout({**launched, **(path if system.timers.path_after else {})})
        self.repeat = data.StructLayout({**launched, "rung": self.rung})
        self.ack_token = data.StructLayout(
            {**uid, "set": self.set, "way": self.way_bits, "try": form.try_bits, **path, "tries": TRIES_BITS}
        )
        self.reply = data.StructLayout(
            {
                "forget": 1,
                **({"reject": 1} if system.ni.reject else {}),
                "destination": form.node_bits,
                **life,
                "incarnation": form.incarnation_bits,
                "peer_incarnation": form.incarnation_bits,
                "try": form.try_bits,
                **path,
            }
        )
        self.finish = data.StructLayout({**own_slot, "status": STATUS_BITS, "cause": cause_bits(system)})
        self.entries = data.ArrayLayout(self.entry, system.ni.ways)
        self.header = data.StructLayout({f.name: f.width for f in form.send})
        self.deadline = data.StructLayout({"given": 1, "time": system.time_bits})
        self.distance = class_bits(system.graph)
        self.fields = data.StructLayout(
            {
                **generation,
                "destination": 16,
                "distance": self.distance,
                "cls": form.class_bits,
                "best_effort": 1,
                "refused": 1,
                "cause": cause_bits(system),
                "length": form.length_bits,
                "expect": form.incarnation_bits,
                **path,
                "retry_limit": TRIES_BITS,
                "tag": system.wire.tag_bits,
            }
        )
        self.looked_fields = self._some("generation", "destination", "best_effort", "refused", "retry_limit", "tag")
        # What is sent goes to a node.
        self.peeked_fields = data.StructLayout(
            self._some(
                "generation", "distance", "cls", "best_effort", "refused", "cause", "length", "expect", *path
            ).members
            | {"destination": form.node_bits}
        )
        self.looked = data.StructLayout(
            {
                "live": 1,
                "phase": 1,
                "launched": 1,
                "deadline": self.deadline,
                **self.looked_fields.members,
            }
        )
        self.peeked = data.StructLayout({"live": 1, "phase": 1, **self.peeked_fields.members})
        self.dump = data.StructLayout(
            {
                "live": 1,
                **generation,
                "destination": 16,
                "entries": self.entries,
            }
        )

    def _some(self, *names: str) -> data.StructLayout:
        return data.StructLayout({name: self.fields[name].shape for name in names})
