"""The driver: an NI by its registers and streams, whatever carries them."""

import contextlib
import operator
from typing import Any, NamedTuple

from lethe.spec.events import Mode
from lethe.spec.registers import IDENTITY, MAP_VERSION

from .transport import Completion, Datagram, Delivery, DriverError, Transport

__all__ = ["Driver", "Name"]

#: Cycles between two looks at something that is waited for.
LOOK = 20
#: Datagrams that wait for their names at once: fewer than the names that can wait in ACCEPTED.
AT_ONCE = 8


class Name(NamedTuple):
    """What names a datagram that was sent, for `Driver.cancel`; a completion has the same slot, generation and tag."""

    slot: int
    generation: int
    tag: int


class Driver:
    """A network interface.  Call `open` first.  Where the transport lets tasks take turns, several can use one driver.

    Every wait has a limit in cycles, and ends with a `DriverError` that says what did not happen; 0 is one look.  Every
    argument is checked before anything is done.

    Parameters
    ----------
    transport : what carries its transfers
    patience : the limit where a call names none
    """

    def __init__(self, transport: Transport, *, patience: int = 100_000):
        if not isinstance(transport, Transport):
            raise DriverError(f"Driver: transport must be a Transport, not {type(transport).__name__}")
        self._transport, self._patience = transport, _at_least_0("Driver: patience", patience)
        self._map, self._tag = transport.map, 0
        self._ended: list[Completion] = []
        # Tags of the sends under way, which may be of several tasks, and the names that were found for them.
        self._awaited: list[int] = []
        self._names: list[Name] = []
        self._busy = False
        self.node = -1

    async def open(self) -> "Driver":
        """Make sure that the registers are those of this map, and wait until the NI is ready; returns itself."""
        found = (await self.read("IDENTITY"))["IDENTITY"]
        if found != IDENTITY:
            raise DriverError(
                f"IDENTITY: is 0x{found:08X}, not 0x{IDENTITY:08X}; give the address of an NI's registers"
            )
        version = await self.read("VERSION")
        if version["MAP"] != MAP_VERSION:
            raise DriverError(
                f"VERSION: the registers are of map {version['MAP']}, and this driver knows {MAP_VERSION}; "
                "take the driver of the same release"
            )
        for name in ("SIZES", "NETWORK", "WIDTHS", "FEATURES"):
            wanted = {field.name: field.reset for field in self._map[name].fields}
            if (found := await self.read(name)) != wanted:
                part = next(part for part in wanted if wanted[part] != found[part])
                cure = "give the configuration that the NI was made from"
                if part == "DUMP":
                    cure = f"give the transport dump={bool(found[part])}, as the NI was made"
                raise DriverError(
                    f"{name}.{part}: is {found[part]}, and {self._transport.system.source} says {wanted[part]}; {cure}"
                )
        self.node = (await self.read("NODE"))["NODE"]
        await self._until("READY", True, "the NI did not become ready", self._patience)
        return self

    # Registers.

    async def read(self, name: str) -> dict[str, int]:
        """The fields of a register; raises `DriverError` if there is none of this name, or it cannot be read."""
        register = self._register(name)
        word, good = await self._transport.read(register.address)
        if not good:
            raise DriverError(f"{name}: reading it is an error; it is written only")
        return register.unpack(word)

    async def write(self, name: str, **fields: int) -> None:
        """Write a register, fields that are not named as 0; raises `DriverError` if that is refused."""
        register = self._register(name)
        fields = {field: _whole(f"{name}.{field}", value) for field, value in fields.items()}
        try:
            word = register.pack(**fields)
        except (KeyError, ValueError) as error:
            raise DriverError(f"{error.args[0]}; see the map of registers") from None
        if not await self._transport.write(register.address, word):
            raise DriverError(f"{name}: writing {fields} was refused; {register.about}")

    def _register(self, name: str):
        if not isinstance(name, str):
            raise DriverError(f"{name!r:.40}: the name of a register must be a string, such as 'STATUS'")
        try:
            return self._map[name]
        except KeyError:
            raise DriverError(f"{name}: the NI has no such register; its configuration leaves it out") from None

    async def status(self) -> dict[str, int]:
        """The register STATUS."""
        return await self.read("STATUS")

    async def control(self, *, link_enable: bool = True, quiesce: bool = False) -> None:
        """Write the register CONTROL."""
        for name, value in {"link_enable": link_enable, "quiesce": quiesce}.items():
            if not isinstance(value, int) or not 0 <= value <= 1:
                raise DriverError(f"control: {name} must be True or False, not {value!r:.40}")
        await self.write("CONTROL", LINK_ENABLE=int(link_enable), QUIESCE=int(quiesce))

    # Datagrams.

    async def send(
        self,
        destination: int,
        payload: bytes = b"",
        *,
        tag: int | None = None,
        cls: int = 0,
        mode: int = Mode.EXACTLY_ONCE,
        deadline: int = 0,
        retry_limit: int = 0,
        expect: int = 0,
        path: int = 0,
        patience: int | None = None,
    ) -> Name:
        """Send a datagram, and wait until the NI has stored it whole; returns its name.

        Without a tag it gets the next number.  Raises `DriverError` for what the NI would cut off or refuse, and if the
        NI has no free slot for too long.
        """
        system = self._transport.system
        form = system.format
        if not isinstance(payload, bytes | bytearray | memoryview):
            raise DriverError(f"send: payload must be bytes, not {type(payload).__name__}")
        payload, limit = bytes(payload), self._limit("send", patience)
        ends = {
            "destination": (destination, system.nodes), "length": (len(payload), form.mtu + 1),
            "tag": (self._tag if tag is None else tag, 1 << system.wire.tag_bits), "cls": (cls, 1 << form.class_bits),
            "mode": (mode, len(Mode)), "deadline": (deadline, 1 << system.ni.deadline_bits),
            "retry_limit": (retry_limit, 256), "expect": (expect, 1 << form.incarnation_bits),
            "path": (path, 1 << form.path_bits),
        }  # fmt: skip
        given = {name: _whole(f"send: {name}", value) for name, (value, _) in ends.items()}
        for name, value in given.items():
            if not 0 <= value < ends[name][1]:
                raise DriverError(f"send: {name} must be 0 to {ends[name][1] - 1}, not {value}")
        del given["length"]
        if given["destination"] == self.node and not system.loop.slots:
            raise DriverError(f"send: destination {self.node} is the own node; set loop.slots, or choose another")
        if given["destination"] == self.node and self._transport.controls(given["cls"]):
            raise DriverError(f"send: class {cls} is control, which does not go to the own node; choose a lower class")
        if tag is None:
            self._tag = (self._tag + 1) % (1 << system.wire.tag_bits)
        await self._take_names()  # of datagrams that a call before gave up waiting for
        offered = False
        try:
            for left in self._looks(limit):
                if not offered and len(self._awaited) < AT_ONCE:
                    self._awaited.append(given["tag"])
                    self._transport.put(Datagram(payload=payload, **given))
                    offered = True
                await self._take_names()
                for name in self._names:
                    if name.tag == given["tag"]:
                        self._names.remove(name)
                        return name
                await self._pause(left)
        finally:
            if offered:
                self._awaited.remove(given["tag"])
        if not offered:
            raise DriverError(
                f"send: datagram {given['tag']} was not offered: {AT_ONCE} others have waited for the NI for {limit:,} "
                "cycles. All slots are in use, or it is quiesced or in reset"
            )
        raise DriverError(
            f"send: the NI has not taken datagram {given['tag']} in {limit:,} cycles; it still may. "
            "All slots are in use, or it is quiesced or in reset"
        )

    async def _take_names(self) -> None:
        """Take all names that wait, and keep those that a call waits for."""
        self._names = [name for name in self._names if name.tag in self._awaited]
        async with self._alone():
            while (told := await self.read("ACCEPTED_TAG"))["VALID"]:
                uid = await self.read("ACCEPTED")
                if told["TAG"] in self._awaited:
                    self._names.append(Name(uid["SLOT"], uid["GENERATION"], told["TAG"]))

    @contextlib.asynccontextmanager
    async def _alone(self):
        """Registers that belong together: no other task reads them meanwhile."""
        while self._busy:
            await self._transport.wait(1)
        self._busy = True
        try:
            yield
        finally:
            self._busy = False

    async def recv(self, *, patience: int | None = None) -> Delivery:
        """The next delivery, which is waited for."""
        limit = self._limit("recv", patience)
        for left in self._looks(limit):
            if (found := self._transport.delivery()) is not None:
                return found
            await self._pause(left)
        raise DriverError(f"recv: nothing was delivered in {limit:,} cycles; wait longer")

    async def completions(self, least: int = 0, *, patience: int | None = None) -> list[Completion]:
        """The completions that have come, of which at least so many are waited for; if fewer come, none is lost."""
        least, limit = _at_least_0("completions: least", least), self._limit("completions", patience)
        for left in self._looks(limit):
            while (one := self._transport.completion()) is not None:
                self._ended.append(one)
            if len(self._ended) >= least:
                found, self._ended = self._ended, []
                return found
            await self._pause(left)
        raise DriverError(
            f"completions: {len(self._ended)} of {least} came in {limit:,} cycles; wait longer, "
            "or send with a retry limit or a deadline"
        )

    async def cancel(self, name: Name, *, patience: int | None = None) -> None:
        """Give a datagram up; its completion says how it ended.  Nothing happens to one that has ended."""
        limit = self._limit("cancel", patience)
        if not isinstance(name, Name | Completion):
            raise DriverError(f"cancel: name must be what send has returned, not {type(name).__name__}")
        # No other task may write CANCEL between a look at STATUS and this one's.
        async with self._alone():
            await self._until("CANCELLING", False, "the cancel before it was not taken", limit)
            if (await self.status())["RESETTING"]:
                raise DriverError("cancel: the node is in reset, which has ended all datagrams; wait until it is ready")
            await self.write("CANCEL", SLOT=name.slot, GENERATION=name.generation)
        await self._until("CANCELLING", False, "the cancel was not taken", limit)

    # All else.

    async def counters(self) -> dict[str, int]:
        """Every counter by the name of its register, without COUNTER_; all as of one cycle."""
        if not self._map.counters:
            raise DriverError("counters: the NI has none; set ni.statistics = true")
        found = {}
        async with self._alone():
            await self.write("SNAPSHOT", TAKE=1)
            for register in self._map.counters:
                found[register.name.removeprefix("COUNTER_")] = (await self.read(register.name))["COUNT"]
        return found

    async def reset(self, cycles: int = 8, *, incarnation: int = 0) -> int:
        """Reset the node, and wait until it is ready; returns its incarnation, the next if none is chosen.

        What it held is lost: datagrams under way end without a completion, deliveries that nobody took are gone.
        """
        most = (1 << self._map["RESET"].field("CYCLES").bits) - 1
        cycles, incarnation = _whole("reset: cycles", cycles), _whole("reset: incarnation", incarnation)
        if not 1 <= cycles <= most:
            raise DriverError(f"reset: cycles must be 1 to {most}, not {cycles}")
        await self.write("RESET", CYCLES=cycles, INCARNATION=incarnation)
        await self._until("RESETTING", False, "the reset did not end", self._patience)
        await self._until("READY", True, "the NI did not become ready after the reset", self._patience)
        return (await self.read("INCARNATION"))["INCARNATION"]

    async def idle(self, *, patience: int | None = None) -> None:
        """Wait until nothing is under way, remembered, or waiting for the host."""
        await self._until("IDLE", True, "the NI did not become idle", self._limit("idle", patience))

    def _limit(self, call: str, patience: int | None) -> int:
        """The cycles that a call waits at most."""
        return self._patience if patience is None else _at_least_0(f"{call}: patience", patience)

    def _looks(self, limit: int) -> range:
        """As many looks as fit the limit, one at least: how many are left after each."""
        return range(limit // LOOK, -1, -1)

    async def _pause(self, left: int) -> None:
        """The time between two looks."""
        if left:
            await self._transport.wait(LOOK)

    async def _until(self, bit: str, wanted: bool, otherwise: str, limit: int) -> None:
        for left in self._looks(limit):
            if bool((await self.status())[bit]) == wanted:
                return
            await self._pause(left)
        raise DriverError(f"STATUS.{bit}: {otherwise} in {limit:,} cycles; see STATUS and CONTROL")


def _whole(what: str, value: Any) -> int:
    """A whole number, also one of NumPy's; raises `DriverError` for anything else."""
    try:
        return operator.index(value)
    except TypeError:
        raise DriverError(f"{what} must be a whole number, not {type(value).__name__}") from None


def _at_least_0(what: str, value: Any) -> int:
    found = _whole(what, value)
    if found < 0:
        raise DriverError(f"{what} must be at least 0, not {found}")
    return found
