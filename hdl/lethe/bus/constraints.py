"""What tools for FPGAs have to know of the crossing between the NI's clock and the host's.

A pointer crosses in Gray code: its bits may arrive at different times, but within one cycle of the faster clock, and
the first register behind them must stand beside the second.  Memory is written cycles before it is read elsewhere.
"""

__all__ = ["SYNCHRONISERS", "lpf", "sdc", "xdc"]

#: The cells that synchronise: the pointers within a crossing's queue, and ``irq``, which only an NI with registers has;
#: and their registers, in order.
SYNCHRONISERS = ("crossing*/produce_cdc", "crossing*/consume_cdc")
IRQ, STAGES = "irq_cdc", ("stage0", "stage1")


def _clocks(ni_mhz: float, host_mhz: float) -> dict[str, float]:
    """The clocks by their ports, in MHz.  Raises `ValueError` if one is not above 0."""
    clocks = {"clk": ni_mhz, "host_clk": host_mhz}
    for name, mhz in clocks.items():
        if not 0 < mhz < 1e5:
            raise ValueError(f"the frequency of {name} must be above 0 and below 100,000 MHz, not {mhz:g}")
    return clocks


def _ns(mhz: float) -> str:
    return f"{1000 / mhz:.3f}"


def sdc(ni_mhz: float, host_mhz: float) -> str:
    """SDC, for the module as top: both clocks, and what crosses arrives within one cycle."""
    clocks = _clocks(ni_mhz, host_mhz)
    lines = [f"create_clock -name {name} -period {_ns(mhz)} [get_ports {name}]" for name, mhz in clocks.items()]
    for source, sink in (tuple(clocks), tuple(clocks)[::-1]):
        path = f"-from [get_clocks {source}] -to [get_clocks {sink}]"
        lines += [f"set_max_delay {_ns(max(clocks.values()))} {path}", f"set_false_path -hold {path}"]
    return "\n".join([*lines, ""])


def xdc(ni_mhz: float, host_mhz: float, *, irq: bool = True) -> str:
    """XDC, for the module as top: the same, and registers that stand side by side; ``irq``: whether there is one."""
    clocks = _clocks(ni_mhz, host_mhz)
    lines = [f"create_clock -name {name} -period {_ns(mhz)} [get_ports {name}]" for name, mhz in clocks.items()]
    for source, sink in (tuple(clocks), tuple(clocks)[::-1]):
        path = f"-from [get_clocks {source}] -to [get_clocks {sink}]"
        lines.append(f"set_max_delay -datapath_only {path} {_ns(max(clocks.values()))}")
    lines += [
        f"set_property ASYNC_REG TRUE [get_cells -hierarchical -filter {{NAME =~ *{name}/{stage}_reg*}}]"
        for name in (*SYNCHRONISERS, *([IRQ] if irq else []))
        for stage in STAGES
    ]
    return "\n".join([*lines, ""])


def lpf(ni_mhz: float, host_mhz: float) -> str:
    """LPF, for the module as top: both clocks, and no path between them is timed."""
    clocks = _clocks(ni_mhz, host_mhz)
    lines = [f'FREQUENCY PORT "{name}" {mhz:.3f} MHZ;' for name, mhz in clocks.items()]
    lines += [
        f'BLOCK PATH FROM CLKNET "{source}" TO CLKNET "{sink}";'
        for source, sink in (tuple(clocks), tuple(clocks)[::-1])
    ]
    return "\n".join([*lines, ""])
