"""Two exported NIs on AXI4-Streams, each with a lossy link to the other, as one Verilog design."""

from pathlib import Path

TOP = "lethe_axi_pair"
_FLIT = ("valid", "first", "last", "data")
_SHARED = ("clk", "rst", "host_clk", "host_rst")
#: What is the same in all tests; the other inputs are those of the bench.
_CONSTANTS = {
    "link_enable": 1, "quiesce": 0, "cancel_valid": 0, "cancel_slot": 0, "cancel_generation": 0, "counter_address": 0,
    "service_reset": 0, "dump_valid": 0, "dump_payload": 0,
}  # fmt: skip


def pair(module: str, ports: dict[str, dict]) -> str:
    """The module `TOP` of two with these ports, as ``--list`` tells them; those of a side begin with its name."""

    def width(name: str) -> str:
        return f"[{ports[name]['bits'] - 1}:0] "

    told = [
        name for name in ports if not name.startswith("link_") and name not in (*_SHARED, *_CONSTANTS, "node", "seed")
    ]
    shared = [name for name in _SHARED if name in ports]
    outer = [f"{side}_{name}" for side in "ab" for name in told]
    lines = [
        f"module {TOP}({', '.join([*shared, 'lost', 'flipped', *outer])});",
        f"  input {', '.join(shared)};",
        "  output [31:0] lost, flipped;",
        *(f"  {ports[name]['direction']} {width(name)}{side}_{name};" for side in "ab" for name in told),
    ]
    bits = ports["link_o_data"]["bits"]
    for number, (side, other) in enumerate(("ab", "ba")):
        nets = ", ".join(f"{side}_{way}_{field}" for way in ("sent", "heard") for field in _FLIT[:3])
        wired = [f".i_{field}({side}_sent_{field}), .o_{field}({other}_heard_{field})" for field in _FLIT]
        constants = {"node": number, "seed": 77 + number} | _CONSTANTS
        bound = [
            *(f".{name}({name})" for name in shared),
            *(f".{name}({ports[name]['bits']}'d{value})" for name, value in constants.items() if name in ports),
            *(f".link_i_{field}({side}_heard_{field}), .link_o_{field}({side}_sent_{field})" for field in _FLIT),
            *(f".{name}({side}_{name})" for name in told),
        ]
        lines += [
            f"  wire {nets};",
            f"  wire [{bits - 1}:0] {side}_sent_data, {side}_heard_data;",
            f"  wire [31:0] lost_{side}, flipped_{side};",
            f"  lossy_link #(.BITS({bits}), .SEED(32'd{1000 + number})) wire_{side} (",
            f"    .clk(clk), .rst(rst), .lost(lost_{side}), .flipped(flipped_{side}),",
            f"    {', '.join(wired)});",
            f"  {module} ni_{side} (",
            "    " + ",\n    ".join(bound) + ");",
        ]
    lines += ["  assign lost = lost_a + lost_b;", "  assign flipped = flipped_a + flipped_b;", "endmodule", ""]
    return "\n".join(lines) + Path(__file__).with_name("lossy_link.v").read_text()
