"""The registers as software sees them: a model of `lethe.bus.registers`, transfer by transfer."""

from collections import deque
from collections.abc import Callable, Mapping

from lethe.spec.config import System
from lethe.spec.registers import LEVELS, Access, Interrupt, Register, RegisterMap

__all__ = ["NAMES", "RegisterFile"]

#: Names of accepted datagrams that can wait.
NAMES = 16


class RegisterFile:
    """The registers of one node, between software, which reads and writes them, and an NI, which its owner plays.

    Parameters
    ----------
    system : the configuration
    node : the node's number
    dump : whether the NI has a state dump
    counters : gives every counter by its address at the counter port, as of now
    reset : called with (cycles, incarnation, whether the NI alone) when a RESET begins or is prolonged
    cancel : called with (slot, generation)
    ask : called with the index of a DUMP
    set : called with (code, index, value) of a SET
    tell : called with the fields of a ROUTE or a DEATH, {code, target, …}

    Attributes
    ----------
    time_base, deliver_waiting, completion_waiting, resetting : what the NI shows, set by the owner
    readable : the ports of flow in which messages wait, set by the owner
    incarnation, boot : as the NI is to have them
    names : (slot, generation, tag, control) of those that wait
    notices : (peer, whether it is up, its congested ports) of those that wait
    """

    def __init__(
        self,
        system: System,
        node: int,
        *,
        dump: bool = True,
        counters: Callable[[], Mapping[int, int]] = dict,
        reset: Callable[[int, int, bool], None] = lambda *_: None,
        cancel: Callable[[int, int], None] = lambda *_: None,
        ask: Callable[[int], None] = lambda *_: None,
        set: Callable[[int, int, int], None] = lambda *_: None,
        tell: Callable[[dict[str, int]], None] = lambda *_: None,
    ):
        self.map = RegisterMap(system, dump=dump)
        self._by_address = {r.address: r for r in (*self.map.registers, *self.map.counters)}
        self._system, self._node = system, node
        self._take_counters, self._begin_reset, self._begin_cancel, self._begin_dump = counters, reset, cancel, ask
        self._begin_set, self._begin_tell = set, tell
        self.time_base = self.readable = self._congested = self.boot = 0
        self.deliver_waiting = self.completion_waiting = self.resetting = False
        self.incarnation = 1
        self._ready = self._idle = False
        self._stored = {
            register.name: register.pack(**{field.name: field.reset or 0 for field in register.fields})
            for register in self.map.registers
            if register.fields[0].access is Access.WRITE
        }
        self._pending = 0
        self.names: deque[tuple[int, int, int, int]] = deque()
        self.notices: deque[tuple[int, bool, int]] = deque()
        self._cancelling = self._dumping = self._setting = self._telling = False
        self._answer: int | None = None
        self._notice_map = 0
        self._copies: dict[int, int] = {}
        self._dumped: dict[str, int] = {}

    # What the NI does.

    @property
    def link_enable(self) -> bool:
        return bool(self._stored["CONTROL"] & self.map["CONTROL"].field("LINK_ENABLE").mask)

    @property
    def quiesce(self) -> bool:
        return bool(self._stored["CONTROL"] & self.map["CONTROL"].field("QUIESCE").mask)

    @property
    def receive(self) -> int:
        """The ports of flow from which the host takes messages."""
        return self._stored["RECEIVE"]

    @property
    def irq(self) -> bool:
        """Whether an interrupt is pending and enabled."""
        return bool(self._interrupts() & self._stored["INTERRUPT_ENABLE"])

    def show(self, *, ready: bool, idle: bool) -> None:
        """The levels of ``ready`` and ``idle``."""
        self._pending |= (ready and not self._ready) << Interrupt.READY | (idle and not self._idle) << Interrupt.IDLE
        self._ready, self._idle = ready, idle

    def accept(self, slot: int, generation: int, tag: int, control: int = 0) -> None:
        """A datagram has been accepted."""
        if len(self.names) > NAMES:
            self._pending |= 1 << Interrupt.NAME_LOST
        else:
            self.names.append((slot, generation, tag, control))

    def begin_reset(self) -> None:
        """The node is in reset from now on: names are void, and a CANCEL or a DUMP that waits is over."""
        self.resetting = True
        self._cancelling = self._dumping = self._setting = self._telling = False
        self.names.clear()
        self.notices.clear()

    def cancelled(self) -> None:
        """The CANCEL has been taken."""
        self._cancelling = False

    def answered(self, error: int) -> None:
        """The SET has been taken, and this was the answer."""
        self._setting, self._answer = False, error
        self._pending |= 1 << Interrupt.ANSWERED

    def told(self) -> None:
        """The ROUTE or DEATH has been taken."""
        self._telling = False

    def congest(self, ports: int) -> None:
        """These are the congested ports."""
        self._pending |= (ports != self._congested) << Interrupt.CONGESTED
        self._congested = ports

    def dumped(self, registers: Mapping[str, int]) -> None:
        """The DUMP has been answered: the words of the registers whose names begin with DUMPED."""
        self._dumping, self._dumped = False, dict(registers)
        self._pending |= 1 << Interrupt.DUMPED

    # What software does.

    def read(self, address: int) -> tuple[int, bool]:
        """(word, whether it is OKAY) of a read."""
        register = self._by_address.get(address & ~3)
        if register is None or not register.readable:
            return 0, False
        word = self._word(register)
        if register.name == "ACCEPTED" and self.names:
            self.names.popleft()
        if register.name == "NOTICE" and self.notices:
            self._notice_map = self.notices.popleft()[2]
        return word, True

    def write(self, address: int, word: int, strobe: int = 0b1111) -> bool:
        """Whether a write is OKAY; ``strobe`` has a bit for each byte that counts."""
        register = self._by_address.get(address & ~3)
        if register is None or not register.writable:
            return False
        mask = sum(0xFF << 8 * byte for byte in range(4) if strobe >> byte & 1)
        if register.command:
            return strobe == 0b1111 and self._obey(register.name, register.unpack(word))
        if register.name in self._stored:
            mask &= sum(field.mask for field in register.fields)
            self._stored[register.name] = self._stored[register.name] & ~mask | word & mask
        else:
            self._pending &= ~(word & mask)
        return True

    def _obey(self, name: str, given: dict[str, int]) -> bool:
        """Do what a command says; False if it is refused."""
        if name == "RESET" and given["CYCLES"]:
            if not self.resetting:
                following = (self.incarnation + 1) % (1 << self._system.format.incarnation_bits) or 1
                self.incarnation = given["INCARNATION"] or following
                self.boot = max(self.boot + 1, self._stored.get("LEAST_BOOT", 0))
            self.begin_reset()
            self._begin_reset(given["CYCLES"], self.incarnation, bool(given.get("NI_ONLY")))
        elif name == "CANCEL":
            if self._cancelling or self.resetting:
                return False
            self._cancelling = True
            self._begin_cancel(given["SLOT"], given["GENERATION"])
        elif name == "SNAPSHOT" and given["TAKE"]:
            self._copies = dict(self._take_counters())
        elif name == "DUMP":
            if self._dumping or self.resetting or not self.quiesce:
                return False
            self._dumping = True
            self._begin_dump(given["INDEX"])
        elif name == "SET":
            if self._setting or self.resetting:
                return False
            self._setting, self._answer = True, None
            self._begin_set(given["CODE"], given["INDEX"], given["VALUE"])
        elif name in ("ROUTE", "DEATH"):
            if self._telling or self.resetting:
                return False
            self._telling = True
            self._begin_tell({"code": int(name == "DEATH")} | {part.lower(): value for part, value in given.items()})
        return True

    def _interrupts(self) -> int:
        levels = {
            Interrupt.DELIVER: self.deliver_waiting,
            Interrupt.COMPLETION: self.completion_waiting,
            Interrupt.ACCEPTED: bool(self.names),
            Interrupt.NOTICE: bool(self.notices),
            Interrupt.READABLE: bool(self.readable & ~self._stored.get("RECEIVE", 0)),
        }
        return self._pending | sum(levels[interrupt] << interrupt for interrupt in LEVELS)

    def _word(self, register: Register) -> int:
        """What a register holds."""
        name = register.name
        if name in self._stored:
            return self._stored[name]
        if register in self.map.counters:
            return self._copies.get(self.map.counter_addresses[self.map.counters.index(register)], 0)
        slot, generation, tag, control = self.names[0] if self.names else (0, 0, 0, 0)
        peer, up, _ = self.notices[0] if self.notices else (0, False, 0)
        values: dict[str, dict[str, int]] = {
            "NODE": {"NODE": self._node},
            "INCARNATION": {"INCARNATION": self.incarnation},
            "TIME": {"TIME": self.time_base & (1 << self.map["TIME"].fields[0].bits) - 1},
            "STATUS": {
                "READY": self._ready, "IDLE": self._idle, "RESETTING": self.resetting, "DELIVER": self.deliver_waiting,
                "COMPLETION": self.completion_waiting, "ACCEPTED": bool(self.names), "CANCELLING": self._cancelling,
                "DUMPING": self._dumping, "NOTICE": bool(self.notices), "SETTING": self._setting,
                "TELLING": self._telling,
            },
            "ACCEPTED_TAG": {"TAG": tag, "CONTROL": control, "VALID": bool(self.names)},
            "ACCEPTED": {"SLOT": slot, "GENERATION": generation},
            "BOOT": {"BOOT": self.boot},
            "PORTS": {"READABLE": self.readable, "CONGESTED": self._congested},
            "ANSWER": {"ERROR": self._answer or 0, "VALID": self._answer is not None},
            "NOTICE": {"PEER": peer, "UP": up, "VALID": bool(self.notices)},
            "NOTICE_MAP": {"MAP": self._notice_map},
        }  # fmt: skip
        if name == "INTERRUPT_PENDING":
            return self._interrupts()
        if name.startswith("DUMPED"):
            return self._dumped.get(name, 0)
        if name in values:
            return register.pack(**{field.name: int(values[name][field.name]) for field in register.fields})
        return register.pack(**{field.name: field.reset or 0 for field in register.fields})
