"""The registers of an NI as SystemRDL 2.0, from which other tools make headers, modules and pages."""

from .registers import Access, Register, RegisterField, RegisterMap

__all__ = ["ADDRESS_MAP", "rdl"]

#: The name of the address map.
ADDRESS_MAP = "lethe_ni"

_PROPERTIES = {
    Access.CONSTANT: "sw = r; hw = na;",
    Access.READ: "sw = r; hw = w;",
    Access.WRITE: "sw = rw; hw = r;",
    Access.CLEAR: "sw = rw; hw = r; onwrite = woclr; hwset;",
    Access.COMMAND: "sw = w; hw = r;",
}


def rdl(found: RegisterMap, *, prefix: str = "") -> str:
    """The text of the address map ``prefix + ADDRESS_MAP``, one instance of each register, at its address."""
    parts = "\n".join(_register(register) for register in (*found.registers, *found.counters))
    return f"""\
addrmap {prefix}{ADDRESS_MAP} {{
    name = "Registers of a network interface";
    desc = "Commands take all four bytes. What the map does not allow is an error and changes nothing.";
    default regwidth = 32;
    default accesswidth = 32;
    addressing = regalign;
    littleendian;
    lsb0;

{parts}}};
"""


def _register(register: Register) -> str:
    fields = "\n".join(f"        {_field(register, field)}" for field in register.fields)
    # Reading it does something, which SystemRDL knows of registers that somebody else makes.
    kind = "external reg" if register.takes else "reg"
    return f"""\
    {kind} {{
        name = "{register.name}";
        desc = "{_text(register.about)}";
{fields}
    }} {register.name} @ 0x{register.address:03X};

"""


def _field(register: Register, field: RegisterField) -> str:
    properties = _PROPERTIES[field.access]
    if register.takes:
        properties += " onread = ruser;"
    reset = "" if field.reset is None else f" = 0x{field.reset:X}"
    high = field.shift + field.bits - 1
    return f'field {{ desc = "{_text(field.about)}"; {properties} }} {field.name}[{high}:{field.shift}]{reset};'


def _text(about: str) -> str:
    """A sentence within quotes of SystemRDL."""
    return about.replace("\\", "\\\\").replace('"', '\\"')
