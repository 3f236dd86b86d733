"""Two exported NIs, each with a lossy link to the other, as one Verilog design."""

from pathlib import Path

TOP = "lethe_pair"

#: Ports of a side: direction (of the bench), name, macro of its width (none: one bit), where it goes in the NI.  The
#: payload streams have the names of AXI4-Stream.
_PORTS = (
    ("output", "ready", "", "ready"),
    ("output", "idle", "", "idle"),
    ("input", "send_destination", "SEND_DESTINATION", "send_destination"),
    ("input", "send_mode", "SEND_MODE", "send_mode"),
    ("input", "send_length", "SEND_LENGTH", "send_length"),
    ("input", "send_tag", "SEND_TAG", "send_tag"),
    ("input", "send_valid", "", "send_valid"),
    ("output", "send_ready", "", "send_ready"),
    ("input", "send_data_tdata", "SEND_DATA_PAYLOAD", "send_data_payload"),
    ("input", "send_data_tvalid", "", "send_data_valid"),
    ("output", "send_data_tready", "", "send_data_ready"),
    ("output", "deliver_source", "DELIVER_SOURCE", "deliver_source"),
    ("output", "deliver_length", "DELIVER_LENGTH", "deliver_length"),
    ("output", "deliver_valid", "", "deliver_valid"),
    ("input", "deliver_ready", "", "deliver_ready"),
    ("output", "deliver_data_tdata", "DELIVER_DATA_DATA", "deliver_data_data"),
    ("output", "deliver_data_tlast", "", "deliver_data_last"),
    ("output", "deliver_data_tvalid", "", "deliver_data_valid"),
    ("input", "deliver_data_tready", "", "deliver_data_ready"),
    ("output", "completion_tag", "COMPLETION_TAG", "completion_tag"),
    ("output", "completion_status", "COMPLETION_STATUS", "completion_status"),
    ("output", "completion_cause", "COMPLETION_CAUSE", "completion_cause"),
    ("output", "completion_valid", "", "completion_valid"),
    ("input", "completion_ready", "", "completion_ready"),
    ("input", "counter_address", "COUNTER_ADDRESS", "counter_address"),
    ("output", "counter_data", "COUNTER_DATA", "counter_data"),
)
_FLIT = ("valid", "first", "last", "data")


def pair() -> str:
    """The module `TOP` and its wires, for NIs exported with ``--name a_`` and ``--name b_`` behind their headers."""
    sides = [(side, port) for side in "ab" for port in _PORTS]
    lines = [
        f"module {TOP}(clk, rst, lost, flipped, {', '.join(f'{side}_{name}' for side, (_, name, _, _) in sides)});",
        "  input clk, rst;",
        "  output [31:0] lost, flipped;",
        *(
            f"  {direction} {f'[`{side.upper()}_LETHE_{width}_BITS-1:0] ' if width else ''}{side}_{name};"
            for side, (direction, name, width, _) in sides
        ),
    ]
    for number, (side, other) in enumerate(("ab", "ba")):
        width = f"`{side.upper()}_LETHE_LINK_O_DATA_BITS"
        nets = ", ".join(f"{side}_{way}_{field}" for way in ("sent", "heard") for field in _FLIT[:3])
        wired = [f".i_{field}({side}_sent_{field}), .o_{field}({other}_heard_{field})" for field in _FLIT]
        constants = {
            "node": number, "seed": 77 + number, "incarnation": 1, "link_enable": 1, "node_reset": 0, "quiesce": 0,
            "send_cls": 0, "send_deadline": 0, "send_retry_limit": 0, "send_expect": 0, "cancel_valid": 0,
            "cancel_slot": 0, "cancel_generation": 0,
        }  # fmt: skip
        lines += [
            f"  localparam [`{side.upper()}_LETHE_{name.upper()}_BITS-1:0] {side}_{name} = {value};"
            for name, value in constants.items()
        ]
        ports = [
            ".clk(clk), .rst(rst)",
            *(f".{name}({side}_{name})" for name in constants),
            *(f".link_i_{field}({side}_heard_{field}), .link_o_{field}({side}_sent_{field})" for field in _FLIT),
            *(f".{port}({side}_{name})" for _, name, _, port in _PORTS),
        ]
        lines += [
            f"  wire {nets};",
            f"  wire [{width}-1:0] {side}_sent_data, {side}_heard_data;",
            f"  wire [31:0] lost_{side}, flipped_{side};",
            f"  lossy_link #(.BITS({width}), .SEED(32'd{1000 + number})) wire_{side} (",
            f"    .clk(clk), .rst(rst), .lost(lost_{side}), .flipped(flipped_{side}),",
            f"    {', '.join(wired)});",
            f"  {side}_lethe_ni ni_{side} (",
            "    " + ",\n    ".join(ports) + ");",
        ]
    lines += ["  assign lost = lost_a + lost_b;", "  assign flipped = flipped_a + flipped_b;", "endmodule", ""]
    return "\n".join(lines) + Path(__file__).with_name("lossy_link.v").read_text()
