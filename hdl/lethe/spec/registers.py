"""The registers of an NI on a bus: every register and field, its address, its access and its value after a reset.

`lethe.bus.registers` builds the RTL from this map; the driver, `registers_rdl` and the documents read it.
"""

import enum
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from lethe import __version__

from .config import ConfigError, System
from .ports import Record, index_bits, records

__all__ = [
    "ADDRESS_BITS",
    "COUNTERS",
    "IDENTITY",
    "MAP_VERSION",
    "MOST_SLOTS",
    "Access",
    "Interrupt",
    "Register",
    "RegisterField",
    "RegisterMap",
    "dump_parts",
    "interrupts_of",
]

#: The registers take a page, the least that AXI gives a device; a register is 32 bits at a multiple of 4.
ADDRESS_BITS = 12
#: What the first register holds: "LETH", L in its lowest byte.
IDENTITY = int.from_bytes(b"LETH", "little")
#: Changes with every change that a driver must know.
MAP_VERSION = 1
#: The first counter; counter c of the NI with its services (`System.counters`) is 4·c further.
COUNTERS = 0x800
#: The name of a datagram is one word: so many slots can be named beside a generation.
SLOT_BITS = 12
MOST_SLOTS = 1 << SLOT_BITS
#: Relay knows so many nodes at most.
RELAY_NODE_BITS = 10
#: The entries of a state dump.
DUMPED_ENTRIES = 0x88


class Access(enum.Enum):
    """What software can do with a field."""

    CONSTANT = "constant"  # read; one value for ever
    READ = "read"  # read; the hardware says what
    WRITE = "read, write"  # read what was written last
    CLEAR = "read, write 1 to clear"  # the hardware sets a bit, writing 1 clears it
    COMMAND = "write"  # writing does something; never read


class Interrupt(enum.IntEnum):
    """Bits of the registers of interrupts."""

    DELIVER = 0  # level: a datagram waits to be taken
    COMPLETION = 1  # level: a completion waits to be taken
    ACCEPTED = 2  # level: a name waits in ACCEPTED
    READY = 3  # edge: the NI has initialised after a reset
    IDLE = 4  # edge: the NI has become idle
    NAME_LOST = 5  # edge: a datagram was accepted while names filled their queue, and its name is lost
    DUMPED = 6  # edge: a state dump is there
    MALFORMED = 7  # edge: a datagram on a stream that sends was not as it must be
    NOTICE = 8  # level: a notice of a peer waits in NOTICE
    ANSWERED = 9  # edge: a SET has been answered
    CONGESTED = 10  # edge: the own congested ports are others
    READABLE = 11  # level: messages wait in a port that RECEIVE leaves out


#: Interrupts whose pending bit is the level of a signal; the pending bits of the others stay until they are cleared.
LEVELS = (Interrupt.DELIVER, Interrupt.COMPLETION, Interrupt.ACCEPTED, Interrupt.NOTICE, Interrupt.READABLE)
#: Those that there are only with flow.
_OF_FLOW = (Interrupt.NOTICE, Interrupt.ANSWERED, Interrupt.CONGESTED, Interrupt.READABLE)


def interrupts_of(system: System, *, dump: bool = True) -> tuple[Interrupt, ...]:
    """The interrupts that an NI has."""
    missing = (*(() if dump else (Interrupt.DUMPED,)), *(() if system.top_port.ports else _OF_FLOW))
    return tuple(interrupt for interrupt in Interrupt if interrupt not in missing)


@dataclass(frozen=True, kw_only=True)
class RegisterField:
    """Some bits of a register.

    Attributes
    ----------
    name : in capitals
    shift, bits : its lowest bit, and how many
    access : what software can do with it
    reset : its value after system reset, or for ever; None if the hardware says
    about : its meaning, in a line
    """

    name: str
    shift: int
    bits: int
    access: Access
    about: str
    reset: int | None = None

    @property
    def mask(self) -> int:
        """Its bits within the register."""
        return ((1 << self.bits) - 1) << self.shift

    def of(self, word: int) -> int:
        """What it is in a word."""
        return (word & self.mask) >> self.shift


@dataclass(frozen=True, kw_only=True)
class Register:
    """A register: 32 bits at an address.

    Attributes
    ----------
    name : in capitals
    address : in bytes, a multiple of 4
    fields : the lowest first; bits of none read 0, and writing them does nothing
    about : its meaning, in a line
    takes : whether reading it takes away what was read
    """

    name: str
    address: int
    fields: tuple[RegisterField, ...]
    about: str
    takes: bool = False

    @property
    def command(self) -> bool:
        """Whether writing it does something: it takes all four bytes at once, and cannot be read."""
        return self.fields[0].access is Access.COMMAND

    @property
    def readable(self) -> bool:
        return not self.command

    @property
    def writable(self) -> bool:
        return any(field.access in (Access.WRITE, Access.CLEAR, Access.COMMAND) for field in self.fields)

    def field(self, name: str) -> RegisterField:
        """The field of this name; raises `KeyError` if there is none."""
        for field in self.fields:
            if field.name == name:
                return field
        raise KeyError(f"{self.name} has no field {name}; known are {', '.join(f.name for f in self.fields)}")

    def pack(self, **values: int) -> int:
        """The word with these fields, 0 elsewhere; raises `KeyError` for no such field, `ValueError` if too large."""
        word = 0
        for name, value in values.items():
            field = self.field(name)
            if not 0 <= value < 1 << field.bits:
                raise ValueError(f"{self.name}.{name} must be 0 to {(1 << field.bits) - 1}, not {value}")
            word |= value << field.shift
        return word

    def unpack(self, word: int) -> dict[str, int]:
        """What each field is in a word."""
        return {field.name: field.of(word) for field in self.fields}


def dump_parts(system: System, way: int | None) -> tuple[Record, ...]:
    """The fields of a state dump, (name, bits), a register each: of the slot (way None), or of an entry of the set."""
    form, entry = system.format, dict(records(system)["entry"])
    if way is None:
        return (("live", 1), ("generation", form.generation_bits)), (("destination", 16),)
    names = ("source", "slot"), ("valid", "generation", "incarnation")
    first, second = (tuple((name, entry[name]) for name in part) for part in names)
    return first, second


class RegisterMap:
    """The registers of a system's NI.

    Parameters
    ----------
    system : its configuration
    dump : whether the NI has a state dump

    Attributes
    ----------
    registers : by address, without the counters

    Raises `ConfigError` if the host port has more than `MOST_SLOTS` slots.
    """

    def __init__(self, system: System, *, dump: bool = True):
        slots = system.top_port.slots
        if slots > MOST_SLOTS:
            raise ConfigError(
                f"{system.source}: ni.slots: on a bus an NI has at most {MOST_SLOTS} slots, loop.slots included, "
                f"not {slots}; lower it"
            )
        self._system, self._dump = system, dump
        self.registers = tuple(sorted(self._all(), key=lambda register: register.address))

    def __getitem__(self, name: str) -> Register:
        """The register of this name, a counter or another; raises `KeyError` if there is none."""
        for register in (*self.registers, *self.counters):
            if register.name == name:
                return register
        raise KeyError(f"no register {name}")

    def __contains__(self, name: str) -> bool:
        return any(register.name == name for register in (*self.registers, *self.counters))

    @cached_property
    def counters(self) -> tuple[Register, ...]:
        """The counters, read-only registers of one field, by address."""
        return tuple(
            Register(
                name=f"{prefix}_{counter.name}",
                address=COUNTERS + 4 * (base + counter),
                fields=(_read("COUNT", 0, 32, "as of the last SNAPSHOT", reset=None),),
                about=f"counter {counter.name} of {'the NI' if prefix == 'COUNTER' else prefix.split('_')[0].lower()}",
            )
            for prefix, base, counter in self._counters()
        )

    @cached_property
    def counter_addresses(self) -> tuple[int, ...]:
        """The addresses of all counters at the NI's counter port."""
        return tuple(base + counter for _, base, counter in self._counters())

    def _counters(self) -> Iterator[tuple[str, int, enum.IntEnum]]:
        """(how the name of its register begins, first address of its unit, counter)."""
        system = self._system
        if system.ni.statistics:
            yield from (("COUNTER", 0, counter) for counter in system.counters)
            for level, service in enumerate(system.services):
                base = system.counter_step + level * system.service_counter_step
                yield from ((f"{service.name.upper()}_COUNTER", base, counter) for counter in service.counted(system))

    def _all(self) -> Iterator[Register]:
        yield from self._constants()
        yield from self._live()
        yield from self._commands()
        if self._dump:
            yield from self._dumped()
        if self._system.top_port.ports:
            yield from self._flow()
        if self._system.top_port.tree:
            yield from self._relay()

    def _constants(self) -> Iterator[Register]:
        system, form = self._system, self._system.format
        major, minor, patch = (int(part) for part in __version__.split("."))
        yield Register(
            name="IDENTITY", address=0x00, about="what this is",
            fields=(_constant("IDENTITY", 0, 32, IDENTITY, 'the letters "LETH", L in the lowest byte'),),
        )  # fmt: skip
        yield Register(
            name="VERSION", address=0x04, about="versions of Lethe and of this map",
            fields=(
                _constant("PATCH", 0, 8, patch, "of Lethe"),
                _constant("MINOR", 8, 8, minor, "of Lethe"),
                _constant("MAJOR", 16, 8, major, "of Lethe"),
                _constant("MAP", 24, 8, MAP_VERSION, "of the map: a driver refuses those that it does not know"),
            ),
        )  # fmt: skip
        yield Register(
            name="SIZES", address=0x08, about="sizes of the NI",
            fields=(
                _constant("MTU", 0, 16, form.mtu, "bytes of the longest payload"),
                _constant("SLOTS", 16, 16, system.top_port.slots, "datagrams that can be under way, with a loop's"),
            ),
        )  # fmt: skip
        yield Register(
            name="NETWORK", address=0x0C, about="the network",
            fields=(
                _constant("NODES", 0, 20, system.nodes, "nodes of the network"),
                _constant("FLIT_BYTES", 24, 8, form.flit_bytes, "bytes of a flit, and so of a beat"),
            ),
        )  # fmt: skip
        yield Register(
            name="WIDTHS", address=0x10, about="widths of fields, in bits",
            fields=(
                _constant("TAG", 0, 8, system.wire.tag_bits, "of a tag"),
                _constant("GENERATION", 8, 8, form.generation_bits, "of a generation"),
                _constant("INCARNATION", 16, 8, form.incarnation_bits, "of an incarnation"),
                _constant("CLASS", 24, 8, form.class_bits, "of a class"),
            ),
        )  # fmt: skip
        yield Register(
            name="FEATURES", address=0x14, about="what the NI has",
            fields=(
                _constant("STATISTICS", 0, 1, int(system.ni.statistics), "counters (ni.statistics)"),
                _constant("DUMP", 1, 1, int(self._dump), "a state dump"),
                _constant("LOOP", 2, 1, int(system.loop.slots > 0), "a loop (loop.slots)"),
                _constant("CONTROL_SLOTS", 3, 1, int(system.ni.control_slots > 0), "control slots (ni.control_slots)"),
                _constant(
                    "SOURCE_INCARNATION", 4, 1, int(system.ni.source_incarnation),
                    "deliveries name the incarnation of their source (ni.source_incarnation)",
                ),
                _constant("FLOW", 5, 1, int(system.top_port.ports > 0), "messages to ports (flow.ports)"),
                _constant("RELAY", 6, 1, int(system.top_port.tree), "messages by relay (relay.slots)"),
                _constant("CONTROL_CLASSES", 8, 8, system.ni.control_classes, "control classes (ni.control_classes)"),
                _constant("WAYS", 16, 8, system.ni.ways, "entries in a set of the receive table (ni.ways)"),
            ),
        )  # fmt: skip

    def _live(self) -> Iterator[Register]:
        system, form = self._system, self._system.format
        yield Register(
            name="NODE", address=0x20, about="where the NI is",
            fields=(_read("NODE", 0, form.node_bits, "number of the node, as the port `node` says"),),
        )  # fmt: skip
        port = system.top_port
        status = [
            ("READY", 0, "the NI has initialised its tables", True),
            ("IDLE", 1, "nothing is under way, remembered, or waiting for the host", True),
            ("RESETTING", 2, "the node is in reset", True),
            ("DELIVER", 3, "a datagram waits to be taken", True),
            ("COMPLETION", 4, "a completion waits to be taken", True),
            ("ACCEPTED", 5, "a name waits in ACCEPTED", True),
            ("CANCELLING", 6, "the last CANCEL has not been taken", True),
            ("DUMPING", 7, "the last DUMP has not been answered", self._dump),
            ("NOTICE", 8, "a notice of a peer waits in NOTICE", port.ports > 0),
            ("SETTING", 9, "the last SET has not been answered", port.ports > 0),
            ("TELLING", 10, "the last ROUTE or DEATH has not been taken", port.tree),
        ]
        yield Register(
            name="STATUS", address=0x24, about="what the NI is doing",
            fields=tuple(_read(name, shift, 1, about, reset=0) for name, shift, about, there in status if there),
        )  # fmt: skip
        yield Register(
            name="INCARNATION", address=0x28, about="1, then one more with the first cycle of each reset, never 0",
            fields=(_read("INCARNATION", 0, form.incarnation_bits, "of the NI", reset=1),),
        )  # fmt: skip
        yield Register(
            name="TIME", address=0x2C, about="the time base",
            fields=(_read("TIME", 0, min(32, system.time_bits), "cycles since a reset with the link enabled"),),
        )  # fmt: skip
        yield Register(
            name="CONTROL", address=0x30, about="what the NI may do",
            fields=(
                _write("LINK_ENABLE", 0, 1, 1, "0: no new message leaves, and the time base stands still"),
                _write("QUIESCE", 1, 1, 0, "1: no more datagrams are taken; what is under way is finished"),
            ),
        )  # fmt: skip
        sources = interrupts_of(system, dump=self._dump)
        abouts = _comments(Interrupt)
        yield Register(
            name="INTERRUPT_PENDING", address=0x34, about="interrupts that have come",
            fields=tuple(
                RegisterField(
                    name=source.name, shift=int(source), bits=1, reset=0, about=abouts[source],
                    access=Access.READ if source in LEVELS else Access.CLEAR,
                )
                for source in sources
            ),
        )  # fmt: skip
        yield Register(
            name="INTERRUPT_ENABLE", address=0x38, about="the mask of interrupts: those that set `irq`",
            fields=tuple(_write(source.name, int(source), 1, 0, f"1: {source.name} sets `irq`") for source in sources),
        )  # fmt: skip
        record = dict(records(system, system.top_port)["accepted"])
        yield Register(
            name="ACCEPTED_TAG", address=0x40, about="the oldest name that waits: read it before ACCEPTED",
            fields=(
                _read("TAG", 0, record["tag"], "tag of the datagram"),
                *([_read("CONTROL", 16, 1, "1: it came by `send_control`")] if "control" in record else []),
                _read("VALID", 31, 1, "1: a name waits; else this register and ACCEPTED are 0", reset=0),
            ),
        )  # fmt: skip
        yield Register(
            name="ACCEPTED", address=0x44, about="its slot and generation, as CANCEL takes them; reading takes it away",
            takes=True,
            fields=(
                _read("SLOT", 0, record["slot"], "slot of the datagram"),
                _read("GENERATION", SLOT_BITS, record["generation"], "generation of the datagram"),
            ),
        )  # fmt: skip

    def _commands(self) -> Iterator[Register]:
        system, form = self._system, self._system.format
        record = dict(records(system, system.top_port)["cancel"])
        outlives = any(not service.reset_with_ni for service in system.services)
        services = [_command("NI_ONLY", 16, 1, "1: the services keep what they hold")] if outlives else []
        yield Register(
            name="RESET", address=0x50, about="resets the node",
            fields=(
                _command("CYCLES", 0, 8, "cycles that the reset lasts, from the next cycle on; 0 does nothing"),
                _command("INCARNATION", 8, form.incarnation_bits, "incarnation from then on; 0: the next"),
                *services,
            ),
        )  # fmt: skip
        yield Register(
            name="CANCEL", address=0x54, about="gives a datagram up; refused while CANCELLING or RESETTING",
            fields=(
                _command("SLOT", 0, record["slot"], "as ACCEPTED or a completion said"),
                _command("GENERATION", SLOT_BITS, record["generation"], "likewise"),
            ),
        )  # fmt: skip
        if system.ni.statistics:
            yield Register(
                name="SNAPSHOT", address=0x58, about="copies all counters; the answer to the write waits for it",
                fields=(_command("TAKE", 0, 1, "1: take one; 0 does nothing"),),
            )  # fmt: skip
        if self._dump:
            bits = index_bits(max(system.ni.slots, system.ni.sets))
            yield Register(
                name="DUMP", address=0x5C,
                about="asks for a state dump; refused while DUMPING, RESETTING, or not QUIESCE",
                fields=(_command("INDEX", 0, bits, "slot and set that the low bits name"),),
            )  # fmt: skip

    def _dumped(self) -> Iterator[Register]:
        slot, destination = dump_parts(self._system, None)
        about = {
            "live": "the slot is in use", "generation": "of the slot", "destination": "of the datagram in the slot",
        }  # fmt: skip
        yield _packed("DUMPED_SLOT", 0x80, slot, about, "the slot that the last state dump read")
        yield _packed("DUMPED_DESTINATION", 0x84, destination, about, "the same")
        about = {
            "source": "node that the entry is for", "slot": "its slot", "valid": "the way holds an entry",
            "generation": "of that slot", "incarnation": "of that node",
        }  # fmt: skip
        for way in range(self._system.ni.ways):
            first, second = dump_parts(self._system, way)
            address = DUMPED_ENTRIES + 8 * way
            yield _packed(f"DUMPED_SOURCE{way}", address, first, about, f"way {way} of the set that it read")
            yield _packed(f"DUMPED_ENTRY{way}", address + 4, second, about, "the same")

    def _flow(self) -> Iterator[Register]:
        system, ports = self._system, self._system.top_port.ports
        found = records(system, system.top_port)
        given, notice = dict(found["set"]), dict(found["notice"])
        yield Register(
            name="FLOW_SIZES", address=0x100, about="sizes of flow",
            fields=(
                _constant("MTU", 0, 16, system.flow_mtu, "bytes of the longest message"),
                _constant("PORTS", 16, 8, ports, "ports; the index of a port is its number modulo this"),
            ),
        )  # fmt: skip
        yield Register(
            name="BOOT", address=0x104, about="resets of the node so far, by which peers know one",
            fields=(_read("BOOT", 0, 32, "as of the last RESET; it must not wrap", reset=0),),
        )  # fmt: skip
        yield Register(
            name="LEAST_BOOT", address=0x108,
            about="what BOOT becomes with the next RESET, if that is more than one more",
            fields=(_write("BOOT", 0, 32, 0, "a count from elsewhere, of a node that has lost its power"),),
        )  # fmt: skip
        yield Register(
            name="RECEIVE", address=0x10C, about="the ports from which the host takes messages",
            fields=(_write("MASK", 0, ports, (1 << ports) - 1, "a bit for each index"),),
        )  # fmt: skip
        yield Register(
            name="PORTS", address=0x110, about="the own ports, a bit for each index",
            fields=(
                _read("READABLE", 0, ports, "messages wait in the port", reset=0),
                _read("CONGESTED", 16, ports, "the port is congested", reset=0),
            ),
        )  # fmt: skip
        yield Register(
            name="SET", address=0x114, about="binds a port, or sets its limits; refused while SETTING or RESETTING",
            fields=(
                _command("VALUE", 0, given["value"], "number of the port; or sixteenths of the limit in bytes"),
                _command("INDEX", 16, given["index"], "index of the port"),
                _command(
                    "CODE", 24, given["code"],
                    "0: unbinds it, 1: binds it to VALUE, 2: its receive limit is VALUE, 3: its send limit",
                ),
            ),
        )  # fmt: skip
        yield Register(
            name="ANSWER", address=0x118, about="how the last SET went",
            fields=(
                _read("ERROR", 0, 2, "0: done, 1: bound already, 2: messages wait in it, 3: no such index or number"),
                _read("VALID", 31, 1, "1: it was answered; 0: it was not, or a reset has dropped it", reset=0),
            ),
        )  # fmt: skip
        yield Register(
            name="NOTICE", address=0x11C, about="the oldest notice of a peer; reading takes it away", takes=True,
            fields=(
                _read("PEER", 0, notice["peer"], "node that it is about"),
                _read("UP", 30, 1, "1: the peer is up"),
                _read("VALID", 31, 1, "1: a notice waited; else this register is 0", reset=0),
            ),
        )  # fmt: skip
        yield Register(
            name="NOTICE_MAP", address=0x120, about="the peer's congested ports, as of the notice that was read last",
            fields=(_read("MAP", 0, ports, "a bit for each index", reset=0),),
        )  # fmt: skip

    def _relay(self) -> Iterator[Register]:
        system = self._system
        word = dict(records(system, system.top_port)["tree"])
        yield Register(
            name="RELAY_SIZES", address=0x140, about="sizes of relay",
            fields=(
                _constant("MTU", 0, 16, system.relay_mtu, "bytes of the longest message"),
                _constant("RADIX", 16, 8, system.relay.radix, "children of a node of the overlay; 0: there is none"),
            ),
        )  # fmt: skip
        yield Register(
            name="ROUTE", address=0x144, about="writes a route of the overlay; refused while TELLING or RESETTING",
            fields=(
                _command("TARGET", 0, RELAY_NODE_BITS, "node that the route is to"),
                _command("HOP", 12, RELAY_NODE_BITS, "its next node; the own one: nobody"),
                _command("WAY", 24, word["way"], "what that is to this node: 0 nothing, 1 parent, 2 + k child k"),
            ),
        )  # fmt: skip
        yield Register(
            name="DEATH", address=0x148,
            about="a node is dead, and the written routes are in use; refused while TELLING or RESETTING",
            fields=(
                _command("TARGET", 0, RELAY_NODE_BITS, "the dead node; the own one: nobody has died, the first"),
                _command("DEPTH", 16, word["depth"], "own depth from now on"),
                _command("PROMOTED", 24, 1, "1: this node has been promoted by it"),
            ),
        )  # fmt: skip


#: Where the fields of a state dump lie.
_DUMP_SHIFT = {
    "live": 31, "generation": 0, "destination": 0, "source": 0, "slot": 16, "valid": 31, "incarnation": 20,
}  # fmt: skip


def _packed(name: str, address: int, parts: Record, abouts: dict[str, str], about: str) -> Register:
    fields = sorted(
        (_read(part.upper(), _DUMP_SHIFT[part], bits, abouts[part]) for part, bits in parts), key=lambda f: f.shift
    )
    return Register(name=name, address=address, fields=tuple(fields), about=about)


def _constant(name: str, shift: int, bits: int, value: int, about: str) -> RegisterField:
    return RegisterField(name=name, shift=shift, bits=bits, access=Access.CONSTANT, about=about, reset=value)


def _read(name: str, shift: int, bits: int, about: str, *, reset: int | None = None) -> RegisterField:
    return RegisterField(name=name, shift=shift, bits=bits, access=Access.READ, about=about, reset=reset)


def _write(name: str, shift: int, bits: int, reset: int, about: str) -> RegisterField:
    return RegisterField(name=name, shift=shift, bits=bits, access=Access.WRITE, about=about, reset=reset)


def _command(name: str, shift: int, bits: int, about: str) -> RegisterField:
    return RegisterField(name=name, shift=shift, bits=bits, access=Access.COMMAND, about=about)


def _comments(codes: type[enum.IntEnum]) -> dict[enum.IntEnum, str]:
    """The comment behind each member."""
    import inspect
    import re

    found = dict(re.findall(r"^ +([A-Z_]+) = \d+ +# (.*)$", inspect.getsource(codes), re.MULTILINE))
    return {code: found[code.name] for code in codes}
