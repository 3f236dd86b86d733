"""The diagrams of the documents, from text to SVG in docs/pictures: ``python scripts/diagrams.py``.

With ``--check`` nothing is written, and stale pictures are exit code 1.
"""

import argparse
import functools
import re
import sys
from pathlib import Path

import schemdraw
from schemdraw import elements, flow, logic

from lethe.spec import stages
from lethe.spec.axi import axi_ports, axi_streams
from lethe.spec.config import System
from lethe.spec.events import Status
from lethe_sim.lockstep.axi_waves import SYSTEM, Waves, record

PICTURES = Path(__file__).parents[1] / "docs" / "pictures"

#: One datagram of 32 bytes on a wire, default wire format: cycles after its acceptance (cycle contract, 4.2 to 4.9).
#: `tests/docs/test_diagrams.py` holds them against a run.
EXCHANGE = {
    "ACCEPT": 0,
    "SEND": 8,
    "DELIVER": 19,
    "TAKE": 21,
    "ACK": 27,
    "RELEASE": 33,
    "COMPLETE": 35,
    "FORGET": 41,
    "FORGOTTEN": 47,
}
SEND_FLITS = 6

# State diagrams: boxes {name: place}, arrows (from, to, shape, bend), words (place, text).  A place is x, y in box
# heights; an end of an arrow is a box and its side.  Shapes are those of `schemdraw.elements.Wire`; = is a line
# with two heads.
STATES = {
    "sender": (
        {"Free slot": (0, 0), "Filling": (6.5, 0), "Live": (13, 0), "Ended": (13, -4.5), "Resting": (6.5, -2.4)},
        [
            ("Free slot E", "Filling W", "-", 0),
            ("Filling E", "Live W", "-", 0),
            ("Live NE", "Live NW", "n", 0.9),
            ("Live S", "Ended N", "-", 0),
            ("Ended W", "Free slot S", "-|", 0),
            ("Ended NW", "Resting E", "-", 0),
            ("Resting W", "Free slot SE", "-", 0),
        ],
        [
            ((3.25, 0.15), "handshake of\nthe record"),
            ((9.75, 0.15), "last beat stored:\nACCEPT"),
            ((13, 1.5), "SEND; time-out: REPEAT; SEND …"),
            ((15.8, -2.8), "Ack: RELEASE\nretry limit, deadline, cancel,\nbest effort sent: GIVE_UP"),
            ((7.3, -4.4), "completion taken: COMPLETE, generation + 1"),
            ((10.7, -3.0), "the same, UNKNOWN, and\na quarantine is configured"),
            ((2.4, -2.0), "quarantine over"),
        ],
    ),
    "receiver": (
        {"No entry": (0, 0), "Held": (9, 0)},
        [
            ("No entry NE", "Held NW", "n", 0.9),
            ("Held W", "No entry E", "-", 0),
            ("Held SW", "No entry SE", "n", -0.9),
            ("Held NE", "Held SE", "c", 1.2),
        ],
        [
            ((4.5, 1.65), "Send, and there is room: DELIVER, Ack queued"),
            ((4.5, 0.15), "Forget: FORGOTTEN"),
            ((4.5, -1.9), "Ack repeated ack_limit times: ORPHAN"),
            ((15.6, -0.6), "the same Send: DUPLICATE, Ack queued\n"
                           "Ack time-out: ACK_REPEAT, Ack queued\n"
                           "Send of another generation: DELIVER, Ack queued"),
        ],
    ),
    "router-input": (
        {"Idle": (0, 0), "Forward": (9, 2.2), "Swallow": (9, -2.2)},
        [
            ("Idle N", "Forward W", "|-", 0),
            ("Forward SW", "Idle NE", "-", 0),
            ("Idle S", "Swallow W", "|-", 0),
            ("Swallow NW", "Idle SE", "-", 0),
            ("Forward S", "Swallow N", "-", 0),
            ("Swallow E", "Forward E", "c", 2.6),
        ],
        [
            ((4.2, 2.4), "head wins an output: FORWARD"),
            ((5.0, 0.55), "last flit; gap: FRAGMENT"),
            ((4.2, -2.75), "head is discarded: DISCARD_…"),
            ((4.3, -1.85), "last flit; gap"),
            ((11.2, -0.3), "longer than any worm:\nOVERLONG"),
            ((14.6, -0.3), "a new head wins\nan output"),
        ],
    ),
    "stack": (
        {"service": (0, 0), "host": (0, 2), "NI": (0, -2), "routers": (7, -2), "NI ": (14, -2), "service ": (14, 0),
         "host ": (14, 2)},
        [
            ("host S", "service N", "=", 0),
            ("service S", "NI N", "=", 0),
            ("NI E", "routers W", "=", 0),
            ("routers E", "NI  W", "=", 0),
            ("host  S", "service  N", "=", 0),
            ("service  S", "NI  N", "=", 0),
        ],
        [
            ((7, 1.85), "your program, or your hardware"),
            ((7, -0.3), "send, completion, deliver: every datagram once\n"
                        "(services are optional: the loop, or your own)"),
            ((3.5, -1.9), "flits"),
            ((10.5, -1.9), "flits"),
            ((7, -3.1), "a message that meets another is discarded, whole"),
        ],
    ),
}  # fmt: skip


def drawing() -> schemdraw.Drawing:
    schemdraw.use("svg")
    schemdraw.svgconfig.text = "text"
    return schemdraw.Drawing(show=False, fontsize=11, font="sans-serif", bgcolor="white", lw=1.2, margin=0.5)


def svg(picture: schemdraw.Drawing) -> bytes:
    """The picture's text, without what schemdraw numbers anew for each (hatches, clips), in a family browsers know."""
    text = re.sub(rb"<defs>.*</defs>|<clipPath.*?</clipPath>", b"", picture.get_imagedata("svg"), flags=re.DOTALL)
    text = re.sub(rb' clip-path="[^"]*"', b"", text)
    return text.replace(b'font-family="sans"', b'font-family="sans-serif"')


def states(boxes: dict, arrows: list, words: list) -> bytes:
    """A state diagram."""
    with drawing() as picture:
        drawn = {}
        for name, place in boxes.items():
            box = flow.Box(w=2.6, h=1.1).anchor("center").at(place).label(name.strip()).fill("#e8eef4")
            drawn[name] = picture.add(box)
        for start, end, shape, bend in arrows:
            (at, side), (to, other) = start.rsplit(" ", 1), end.rsplit(" ", 1)
            wire = elements.Wire(shape.replace("=", "-"), k=bend, arrow="<->" if shape == "=" else "->")
            picture.add(wire.at(getattr(drawn[at], side)).to(getattr(drawn[to], other)))
        for place, text in words:
            picture.add(elements.Label().at(place).label(text, fontsize=9, halign="center", valign="bottom", ofst=0))
    return svg(picture)


def bus(cycles: int, *parts: tuple[int, int, str]) -> dict:
    """A row of a timing diagram: (first cycle, cycles, text) where something is, 0 elsewhere."""
    wave, data = "", []
    for start, length, text in (*parts, (cycles, 0, "")):
        idle = start - len(wave)
        wave += ("0" + "." * (idle - 1)) * (idle > 0) + ("3" + "." * (length - 1)) * (length > 0)
        data += [text] * (length > 0)
    return {"wave": wave, "data": data}


def timing(cycles: int, rows: dict[str, list[tuple[int, int, str]]], width: float = 1) -> bytes:
    """A timing diagram: rows {name: parts of `bus`}; ``width``: of a cycle, 1 is the usual."""
    with drawing() as picture:
        signals = [{"name": name, **bus(cycles, *parts)} for name, parts in rows.items()]
        wave = {"signal": signals, "head": {"tock": 0}, "config": {"hscale": width}}
        picture.add(logic.TimingDiagram(wave, ygap=0.25, fontsize=10, datafontsize=9))
    return svg(picture)


def exchange() -> bytes:
    """Accept, Send, Ack, Forget."""
    at = EXCHANGE
    rows = {
        "A  ACCEPT": [(at["ACCEPT"], 1, "")],
        "A  grant": [(at["SEND"] - stages.SHOWN, 1, "g"), (at["FORGET"] - stages.SHOWN, 1, "g")],
        "A  link_o": [(at["SEND"], SEND_FLITS, "Send"), (at["FORGET"], 1, "F")],
        "B  DELIVER": [(at["DELIVER"], 1, "")],
        "B  TAKE": [(at["TAKE"], 1, "")],
        "B  grant": [(at["ACK"] - stages.SHOWN, 1, "g")],
        "B  link_o": [(at["ACK"], 1, "A")],
        "A  RELEASE": [(at["RELEASE"], 1, "")],
        "A  COMPLETE": [(at["COMPLETE"], 1, "")],
        "B  FORGOTTEN": [(at["FORGOTTEN"], 1, "")],
    }
    return timing(max(at.values()) + 2, rows, width=0.5)


def grant() -> bytes:
    """Three worms back to back: a reply, a Send of three flits, the next one."""
    judged, shown = stages.JUDGED, stages.SHOWN
    rows = {
        "grant": [(0, 1, "Ack"), (1, 1, "Send"), (4, 1, "next")],
        "judged": [(1 + judged, 1, "Send"), (4 + judged, 1, "next")],
        "token": [(1 + stages.PUSHED, 1, "Send"), (4 + stages.PUSHED, 1, "next")],
        "sending": [(2, 3, "slot of Send"), (5, 3, "next slot")],
        "link_o": [(shown, 1, "Ack"), (1 + shown, 3, "Send"), (4 + shown, 3, "next")],
        "lane tx": [(shown, 1, "ACK"), (1 + shown, 1, "SEND"), (4 + shown, 1, "SEND")],
    }
    return timing(14, rows)


def hop() -> bytes:
    """Four heads that ask for one output; latency 1."""
    rows = {
        "input 0": [(0, 3, "a")],
        "input 1": [(0, 3, "b"), (4, 3, "d")],
        "input 2": [(2, 3, "c")],
        "event 0": [(0, 1, "F")],
        "event 1": [(0, 1, "C"), (4, 1, "F")],
        "event 2": [(2, 1, "B")],
        "held": [(1, 2, "by 0"), (5, 2, "by 1")],
        "output": [(1, 3, "a"), (5, 3, "d")],
    }
    return timing(9, rows)


#: The timing diagrams of AXI: (side, stream, part of the run, port by which it begins, cycles, rows).  A row is a port,
#: or a field of one, shown as a level (1), as a beat's letter and number (data), in hexadecimal (x) or decimal (d).
WAVES = {
    "axi-send": ("near", "s_axis_send", 1, "tvalid", 8, "tvalid 1, tready 1, tdata data, tlast 1, tuser.length d"),
    "axi-send-waits": (
        "near", "s_axis_send", 2, "tvalid", 44, "tvalid 1, tready 1, tdata data, tlast 1, tuser.length d"
    ),
    "axi-deliver": (
        "far", "m_axis_deliver", 3, "tvalid", 8,
        "tvalid 1, tready 1, tdata data, tkeep x, tlast 1, tid d, tuser.length d",
    ),
    "axi-deliver-empty": (
        "far", "m_axis_deliver", 4, "tvalid", 6, "tvalid 1, tready 1, tkeep x, tlast 1, tid d, tuser.length d"
    ),
    "axi-completion": (
        "near", "m_axis_completion", 1, "tvalid", 7, "tvalid 1, tready 1, tdata.tag data, tdata.status status, tlast 1"
    ),
    "axi-send-control": (
        "near", "s_axis_send_control", 5, "tvalid", 6, "tvalid 1, tready 1, tdata data, tlast 1, tuser.cls d"
    ),
    "axi-deliver-control": (
        "far", "m_axis_deliver_control1", 5, "tvalid", 6,
        "tvalid 1, tready 1, tdata data, tkeep x, tlast 1, tuser.cls d",
    ),
    "axi-read": (
        "near", "s_axil", 1, "arvalid", 9, "arvalid 1, arready 1, araddr x, rvalid 1, rready 1, rdata x, rresp d"
    ),
    "axi-write": (
        "near", "s_axil", 1, "awvalid", 9,
        "awvalid 1, awready 1, awaddr x, wvalid 1, wready 1, wdata x, wstrb x, bvalid 1, bready 1, bresp d",
    ),
}  # fmt: skip


#: Widths of a cycle in these pictures, where it is not 1.
WAVE_WIDTHS = {"axi-completion": 2, "axi-send-waits": 0.4}


@functools.cache
def recorded() -> Waves:
    """The run that they are of."""
    return record()


def axi_rows(waves: Waves, name: str) -> dict[str, dict]:
    """The rows of a picture of `WAVES`, {name: WaveJSON}: levels of bits, and all else while its channel is valid."""
    side, stream, part, first, cycles, rows = WAVES[name]
    axis = next((axis for axis in axi_streams(SYSTEM) if axis.name == stream), None)
    found = {}
    for row in rows.split(", "):
        told, shown = row.split()
        port, _, field = told.partition(".")
        channel = "t" if axis else re.sub("^(aw|ar|w|b|r).*", r"\1", port)
        valid = f"{stream}_{channel}valid"
        values = waves.part(
            side, [f"{stream}_{port}", valid], first=f"{stream}_{first}", number=part, cycles=cycles
        )  # fmt: skip
        levels, there = values[f"{stream}_{port}"], values[valid]
        if shown == "1":
            wave = "".join(str(level) for level in levels)
            found[told] = {"wave": re.sub(r"(.)\1+", lambda run: run[1] + "." * (len(run[0]) - 1), wave)}
            continue
        if axis and field:
            levels = waves.field(axis, port, field, levels)
        said = [_said(shown, level) if on else None for level, on in zip(levels, there, strict=True)]
        wave, data = "", []
        for now, before in zip(said, [Ellipsis, *said], strict=False):
            wave += "." if now == before else "0" if now is None else "3"
            data += [now] if now is not None and now != before else []
        found[told] = {"wave": wave, "data": data}
    return found


def _said(shown: str, value: int) -> str:
    """A value in a picture."""
    match shown:
        case "data":  # the letter of a datagram in the lowest byte, the number of the beat behind it
            letter = chr(value & 0xFF)
            return f"{letter}{value >> 8 & 0xFF}" if value >> 16 else letter if value else "–"
        case "status":
            return Status(value).name
        case "x":
            return f"{value:X}"
    return str(value)


def axi_waves(waves: Waves) -> dict[str, bytes]:
    """A timing diagram of each stream and of the registers, from a run of the RTL."""
    found = {}
    for name in WAVES:
        with drawing() as picture:
            signals = [{"name": port, **wave} for port, wave in axi_rows(waves, name).items()]
            wave = {"signal": signals, "head": {"tock": 0}, "config": {"hscale": WAVE_WIDTHS.get(name, 1)}}
            picture.add(logic.TimingDiagram(wave, ygap=0.25, fontsize=10, datafontsize=9))
        found[f"{name}.svg"] = svg(picture)
    return found


def axi_block() -> bytes:
    """The ports of an NI on AXI, default configuration: the host's side on the left, the network's on the right."""
    system = System.make()
    ports = axi_ports(system, watch=False, dump=False)
    groups: list[tuple[str, bool, str]] = []  # (prefix, is it on the left, direction)
    groups += [("s_axil_", True, "<->"), ("irq", True, "<-"), ("malformed", True, "<-")]
    groups += [(f"{axis.name}_", True, "->" if axis.to_ni else "<-") for axis in axi_streams(system)]
    groups += [(name, False, "<-") for name in ("clk", "rst", "node", "seed", "link_i_")] + [("link_o_", False, "->")]
    drawn = set()
    with drawing() as picture:
        sides = {left: [group for group in groups if group[1] is left] for left in (True, False)}
        high = 1.3 * (max(map(len, sides.values())) + 1) + 0.4  # the registers take two places
        picture.add(flow.Box(w=3.2, h=high).anchor("center").at((0, 0)).label("lethe_ni").fill("#e8eef4"))
        for left, group in sides.items():
            for place, (prefix, _, way) in enumerate(group):
                names = [name for name in ports if name == prefix or (prefix.endswith("_") and name.startswith(prefix))]
                names = [name for name in names if name not in drawn]
                drawn.update(names)
                y = high / 2 - 0.6 - (place + (left and place > 0)) * (high - 0.4) / (len(group) + left)
                x = -1.6 if left else 1.6
                ends = ((x - 2.2, y), (x, y)) if left else ((x, y), (x + 2.2, y))
                picture.add(elements.Wire("-", arrow=way).at(ends[0]).to(ends[1]))
                wide = [f"{name.removeprefix(prefix)} {ports[name]}" if ports[name] > 1 else name.removeprefix(prefix)
                        for name in names if name != prefix]  # fmt: skip
                title = prefix + "…" if wide else prefix + (f" {ports[prefix]}" if ports[prefix] > 1 else "")
                beside, align = ends[0 if left else 1], "right" if left else "left"
                x_text = beside[0] + (-0.15 if left else 0.15)
                picture.add(elements.Label().at((x_text, y + (0 if wide else -0.2))).label(
                    title, fontsize=10, halign=align, valign="bottom" if wide else "center", ofst=0))  # fmt: skip
                if wide:
                    lines = [", ".join(wide[at : at + 3]) for at in range(0, len(wide), 3)]
                    text = "\n".join(lines)
                    picture.add(elements.Label().at((x_text, y - 0.3)).label(
                        text, fontsize=8, halign=align, valign="top", ofst=0))  # fmt: skip
    if missing := ports.keys() - drawn:
        raise ValueError(f"no place for the ports {sorted(missing)}")
    return svg(picture)


def axi_reset() -> bytes:
    """A node reset while a datagram of four beats is delivered."""
    rows = {
        "deliver_data": [(0, 1, "a0"), (1, 1, "a1")],
        "node_reset": [(2, 3, "")],
        "tvalid": [(1, 4, "")],
        "tready": [(1, 1, ""), (3, 2, "")],
        "tdata": [(1, 1, "a0"), (2, 2, "a1")],
        "tkeep": [(1, 3, "all")],
        "tlast": [(4, 1, "")],
        "aborted": [(4, 1, "")],
    }
    return timing(7, rows)


def pictures() -> dict[str, bytes]:
    """Every picture by the name of its file."""
    drawn = {f"{name}.svg": states(*text) for name, text in STATES.items()}
    drawn |= {"exchange.svg": exchange(), "grant.svg": grant(), "hop.svg": hop(), "axi-reset.svg": axi_reset()}
    return drawn | {"axi-ports.svg": axi_block()} | axi_waves(recorded())


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python scripts/diagrams.py", description="Draw the documents' diagrams.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 if a picture is stale")
    parser.add_argument("--directory", type=Path, default=PICTURES, help="(default: docs/pictures)")
    chosen = parser.parse_args(arguments)
    stale = False
    for name, picture in pictures().items():
        path = chosen.directory / name
        if not path.exists() or path.read_bytes() != picture:
            stale = True
            print(f"{path}: {'is stale; run python scripts/diagrams.py' if chosen.check else 'written'}")
            if not chosen.check:
                path.write_bytes(picture)
    return 1 if chosen.check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
