"""Every error of a configuration names the file, the key and the cure; and no input gives anything else."""

import contextlib
import dataclasses
import re
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lethe.spec import config, sections, topology
from lethe.spec.config import ConfigError, System, example, load, parse
from lethe.spec.sections.flow import OF_NI
from lethe.spec.sections.relay import OF_NI as RELAY_NI
from lethe.spec.sections.workload import KERNELS, PATTERNS, WORKLOADS
from lethe.spec.toml import dump
from lethe.spec.topology import KINDS

TREE = '[topology]\nkind = "tree"\n'

# TOML text, key, part of what is wrong, part of the cure.
PATTERN = '[workload]\nkind = "pattern"\n'
CAPTURE = '[workload]\nkind = "capture"\npath = "x.pcap"\n'
KERNEL = '[workload]\nkind = "kernel"\n'
FLOW = f"{dump(System.make(topology={'kind': 'wire'}, ni=OF_NI))}\n[flow]\nports = "
RELAY = f"{dump(System.make(topology={'kind': 'wire'}, ni=RELAY_NI))}\n[relay]\nslots = "
CREDITS = '[router]\nflow = "credits"\n'
ERRORS = [
    ("[rnu]\nseed = 1", "rnu", "no such section", "did you mean run?"),
    ("[zzz]", "zzz", "no such section", "known are run, topology"),
    ("mtu = 8", "mtu", "no such section", "did you mean wire.mtu? Put it under [wire]"),
    ("slots = 8", "slots", "no such section", "did you mean ni.slots or loop.slots or relay.slots?"),
    ("[run]\nsed = 1", "run.sed", "no such key", "did you mean seed?"),
    ("[run]\nqqqq = 1", "run.qqqq", "no such key", "known are name, seed, cycles"),
    ("run = 1", "run", "must be a table, not 1", "write [run]"),
    ("[[run]]", "run", "must be a table", "write [run]"),
    ("[run]\nseed = 1.5", "run.seed", "must be a whole number, not 1.5", "change the value"),
    ("[run]\nseed = true", "run.seed", "must be a whole number, not True", "change the value"),
    ("[run]\nname = 1", "run.name", "must be a text in quotes", "change the value"),
    ("[ni]\nstatistics = 1", "ni.statistics", "must be true or false", "change the value"),
    ('[faults]\nloss = "a"', "faults.loss", "must be a number", "change the value"),
    ("[run]\nseed = 99999999999999999999", "run.seed", "is beyond 2^63", "smaller"),
    ("[faults]\nlinks = 3", "faults.links", "must be a list of tables", "write [[faults.links]]"),
    ("[faults]\nlinks = [3]", "faults.links[0]", "must be a table, not 3", "write [[faults.links]]"),
    ("[[faults.links]]\nstrat = 3", "faults.links[0].strat", "no such key", "did you mean start?"),
    ("[run]\nseed = -1", "run.seed", "must be 0 to 4294967295", "in that range"),
    ("[run]\ncycles = 0", "run.cycles", "must be 1 to", "in that range"),
    ('[run]\nname = ""', "run.name", "1 to 200 characters", "shorten"),
    ('[run]\nname = "a\\nb"', "run.name", "must be printable", "leave out line breaks"),
    ('[topology]\nkind = "ring"', "topology.kind", "no such topology 'ring'", "wire, crossbar"),
    ('[topology]\nkind = "crossbar"', "topology.nodes", "must be 2 to 256, not 0", "in that range"),
    ('[topology]\nkind = "tree"\narity = 1', "topology.arity", "must be 2 to 16", "in that range"),
    ('[topology]\nkind = "fly"\nlevels = 0', "topology.levels", "must be 1 to 16", "in that range"),
    ('[topology]\nkind = "tree"\nlevels = 9', "topology.levels", "gives 262144 nodes", "lower it"),
    ('[topology]\nkind = "mesh"\ncolumns = 0', "topology.columns", "must be 1 to 256", "in that range"),
    ('[topology]\nkind = "mesh"\nrows = 257', "topology.rows", "must be 1 to 256", "in that range"),
    ('[topology]\nkind = "mesh"\ncolumns = 1\nrows = 1', "topology.columns", "at least 2 nodes", "raise columns"),
    (TREE + "nodes = 15", "topology.nodes", "is 15, but the topology has 16", "leave it out"),
    ("[wire]\nflit_bits = 48", "wire.flit_bits", "16, 32, 64 or 128, not 48", "choose one"),
    ("[wire]\nnode_bits = 17", "wire.node_bits", "must be 0 to 16", "in that range"),
    ("[wire]\nnode_bits = 3", "wire.node_bits", "3 bits cannot number 16 nodes", "leave it at 0"),
    ("[wire]\nnode_bits = 14\nflit_bits = 16", "wire.node_bits", "must fit the first flit", "widen wire.flit_bits"),
    ("[wire]\nslot_bits = 3", "wire.slot_bits", "3 bits cannot number 16 slots", "leave it at 0"),
    ("[wire]\nslot_bits = -1", "wire.slot_bits", "must be 0 to 16", "in that range"),
    ("[wire]\ngeneration_bits = 0", "wire.generation_bits", "must be 1 to 20", "in that range"),
    ("[wire]\nincarnation_bits = 9", "wire.incarnation_bits", "must be 1 to 8", "in that range"),
    ("[wire]\ntry_bits = 0", "wire.try_bits", "must be 1 to 8", "in that range"),
    ("[wire]\nclass_bits = 9", "wire.class_bits", "must be 1 to 8", "in that range"),
    ("[wire]\nmode_bits = 5", "wire.mode_bits", "must be 1 to 4", "in that range"),
    ("[wire]\next_bits = 17", "wire.ext_bits", "must be 1 to 16", "in that range"),
    ("[wire]\nmtu = 4097", "wire.mtu", "must be 1 to 4096", "in that range"),
    ("[wire]\nmtu = 3", "wire.mtu", "at least 4 bytes", "raise it"),
    ("[wire]\ntag_bits = 0", "wire.tag_bits", "must be 1 to 16", "in that range"),
    ("[router]\nlatency = 7", "router.latency", "must be 1 to 6", "in that range"),
    ("[router]\nqueue = 3", "router.queue", "must be 0, 1, 2 or 4, not 3", "one of these"),
    ("[router]\npool = 65", "router.pool", "must be 0 to 64, not 65", "in that range"),
    ("[router]\npool = 8\nqueue = 1", "router.pool", "input queues or a pool, not both", "leave router.queue"),
    ('[router]\npool = 8\npool_path = "best"', "router.pool_path", "no such choice 'best'", "choose pinned or any"),
    ('[router]\npool_path = "any"', "router.pool_path", "there is no pool", "set router.pool"),
    ('[router]\npool = 8\npool_path = "any"', "ni.linger", "with router.pool_path messages can", "linger = -1"),
    (
        '[topology]\nkind = "crossbar"\nnodes = 16\n[router]\npool = 8\npool_path = "any"\n[ni]\nlinger = -1',
        "router.pool_path", "a crossbar without up-ports has no choice", 'set it to "pinned"',
    ),
    (
        '[router]\npool = 8\npool_path = "any"\n[ni]\nlinger = -1\n[wire]\npath_bits = 2',
        "router.pool_path", "the sender chooses the up-ports", 'set it to "pinned"',
    ),
    ("[router]\ncontrol_first = 8", "router.control_first", "there is no pool", "set router.pool"),
    ("[router]\npool = 8\ncontrol_first = 256", "router.control_first", "must be 0 to 255, not 256", "in that range"),
    ("[router]\npool = 8\ncontrol_first = 8", "ni.linger", "with router.control_first messages can", "linger = -1"),
    ("[router]\nmax_wait = 0", "router.max_wait", "must be 1 to 65535, not 0", "in that range"),
    ("[ni]\nslots = 1", "ni.slots", "must be 2 to 65536", "in that range"),
    ("[ni]\nsets = 0", "ni.sets", "must be 1 to 65536", "in that range"),
    ("[ni]\nsets = 12", "ni.sets", "must be a power of two, not 12", "take 16"),
    ("[ni]\nways = 9", "ni.ways", "must be 1 to 8", "in that range"),
    ('[router]\nflow = "deflect"', "router.flow", "no such flow control 'deflect'", "choose discard or credits"),
    ("[router]\ncredit_flits = 0", "router.credit_flits", "must be 1 to 4096, not 0", "in that range"),
    ("[router]\ncredit_delay = 9", "router.credit_delay", "must be 1 to 8, not 9", "in that range"),
    ("[router]\ncredit_channels = 3", "router.credit_channels", "must be 1, 2 or 4, not 3", "choose one of these"),
    ("[router]\ncredit_channels = 2", "router.credit_channels", "has no virtual channels", 'set flow = "credits"'),
    ('[router]\ncredit_path = "xy"', "router.credit_path", "no such choice 'xy'", "choose pinned or adaptive"),
    (CREDITS + '[topology]\nkind = "wire"', "router.flow", "a wire has no routers", 'set flow = "discard"'),
    (
        CREDITS + "[ni]\nslots = 64\n[wire]\nflit_bits = 16",
        "router.flow", "must fit the first flit, but take 17 bits", "set wire.flit_bits = 32",
    ),
    (CREDITS + "[faults]\nloss = 0.1", "faults.loss", "credits that are lost", "leave it out"),
    (CREDITS + "[faults]\nflip = 0.1", "faults.flip", "credits that are lost", "leave it out"),
    (CREDITS + "[[faults.links]]\nend = 9", "faults.links", "credits that are lost", "leave it out"),
    (CREDITS + "[[faults.resets]]", "faults.resets", "credits that are lost", "leave it out"),
    (
        CREDITS + "[timers]\nack_limit = 12\n[workload]\nretry_limit = 2",
        "timers.ack_limit", "nothing bounds how long a worm is under way", "leave it at 0",
    ),
    (
        "[study]\nper_destination = -1",
        "study.per_destination", "must be 0 to 65536, not -1", "in that range",
    ),
    ('[study]\nreplies = "later"', "study.replies", "no such order 'later'", "choose first or last"),
    (
        '[study]\nreplies = "last"\n[timers]\nbackoff_steps = 1\nslack = 0',
        "study.replies", "repeats of 16 slots can fill the link, 6 flits each in 70 cycles", "raise timers",
    ),
    (
        '[study]\nreplies = "last"\n[timers]\nbackoff_steps = 0\nslack = 65',
        "study.replies", "repeats of 16 slots can fill the link, 6 flits each in 96 cycles", "raise timers",
    ),
    (
        '[study]\nreplies = "last"\n[timers]\nceiling = 150',
        "study.replies", "6 flits each in 75 cycles", "raise timers.backoff_steps or timers.ceiling",
    ),
    ('[study]\npath = "best"', "study.path", "no such choice 'best'", "choose free, blind or pinned"),
    (
        '[study]\npath = "blind"\n[topology]\nkind = "fly"',
        "study.path", "a fly has no up-ports to choose from", 'set path = "free"',
    ),
    ('[study]\npath = "blind"\n[router]\nqueue = 1', "study.path", "where worms wait", 'set path = "free"'),
    (CREDITS + '[study]\npath = "pinned"', "study.path", "where worms wait", 'set path = "free"'),
    (
        '[study]\npath = "pinned"\n[ni]\nslots = 64\n[wire]\nflit_bits = 16',
        "study.path", "must fit the first flit, but take 17 bits", "set wire.flit_bits = 32",
    ),
    (
        '[study]\npath = "pinned"\n[[faults.links]]\nlink = 40\nend = 200000',
        "faults.links", "with study.path paths are pinned, and those over link 40", "let the link heal",
    ),
    ("[study]\ndilation = 0", "study.dilation", "must be 1 to 16, not 0", "in that range"),
    (
        '[study]\ndilation = 2\n[topology]\nkind = "mesh"',
        "study.dilation", "a mesh has no parallel links", "set dilation = 1, or choose a tree or fly",
    ),
    ("[study]\ndilation = 2\n[router]\nqueue = 1", "study.dilation", "routers in which worms wait", "set dilation = 1"),
    (CREDITS + "[study]\ndilation = 2", "study.dilation", "routers in which worms wait", "set dilation = 1"),
    (
        "[study]\ndilation = 9\n[topology]\narity = 16",
        "study.dilation", "needs routers of 288 ports, but 256 are the most", "lower it",
    ),
    ("[ni]\nreply_depth = 1", "ni.reply_depth", "must be 2 to 65536", "in that range"),
    ("[ni]\ndeliver_records = 1", "ni.deliver_records", "must be 2 to 65536", "in that range"),
    ("[ni]\ndeliver_flits = 3", "ni.deliver_flits", "one payload of 4 flits", "leave it at 0"),
    ("[ni]\ndeliver_flits = -1", "ni.deliver_flits", "not -1", "leave it at 0"),
    ("[ni]\ndeadline_bits = 7", "ni.deadline_bits", "must be 8 to 32", "in that range"),
    ("[ni]\ncontrol_classes = 8", "ni.control_classes", "must be 0 to 7, not 8", "widen wire.class_bits"),
    ("[ni]\nreserved_slots = 16", "ni.reserved_slots", "must be 0 to 15, not 16", "leave a slot for data"),
    ("[ni]\nreserved_slots = 2", "ni.reserved_slots", "nothing may use them", "set ni.control_classes"),
    ("[ni]\nreserved_classes = 8", "ni.reserved_classes", "must be 0 to 7, not 8", "choose one of these"),
    ("[ni]\ncontrol_slots = 2", "ni.control_slots", "no control classes", "set ni.control_classes"),
    ("[ni]\ncontrol_slots = 16\ncontrol_classes = 1", "ni.control_slots", "no slot for data, of 16", "lower it"),
    ("[ni]\ncontrol_flits = 3\ncontrol_classes = 1", "ni.control_flits", "must be 4 to 1048576, not 3", "at 0"),
    ("[ni]\ncontrol_records = 1\ncontrol_classes = 1", "ni.control_records", "must be 2 to 1048576", "at 0"),
    ("[ni]\nacceptance = 1", "ni.acceptance", "must be true or false, not 1", "change the value"),
    ("[ni]\nsweeps = true", "ni.sweeps", "no such key", "did you mean sweep?"),
    ("[wire]\npath_bits = 7", "wire.path_bits", "must be 0 to 6, not 7", "in that range"),
    (
        '[topology]\nkind = "mesh"\ncolumns = 2\nrows = 2\n[wire]\npath_bits = 1',
        "wire.path_bits", "a mesh has one path for a pair", "leave it at 0",
    ),
    (CREDITS + "[wire]\npath_bits = 1", "wire.path_bits", "the network chooses the paths", "leave it at 0"),
    ('[study]\npath = "blind"\n[wire]\npath_bits = 1', "wire.path_bits", "a study of up-ports", "leave it at 0"),
    (
        "[wire]\npath_bits = 6\nflit_bits = 32", "wire.path_bits", "must be in the first flit, but it ends at bit 42",
        "set wire.flit_bits = 64",
    ),
    ("[wire]\npath_bits = 1\n[router]\nqueue = 1", "ni.linger", "can overtake each other", "set ni.linger = -1"),
    ("[ni]\nlinger = -2", "ni.linger", "must be -1 to 16777216, not -2", "in that range"),
    ("[ni]\nlinger = 9", "ni.linger", "a message can be under way for", "raise it to that, or take -1"),
    (CREDITS + "[ni]\nlinger = -1", "ni.linger", "nothing bounds how long a worm", "leave it at 0"),
    (
        TREE + "[wire]\npath_bits = 1\n" + "".join(
            f"[[faults.links]]\nlink = {link}\nstart = 0\nend = 1000000000\n" for link in (32, 33)
        ),
        "faults.links", "none of the 2 paths between node 0 and node 4", "widen wire.path_bits",
    ),
    ("[ni]\nmerge_bits = 65", "ni.merge_bits", "must be 0 to 64, not 65", "in that range"),
    ("[timers]\nsilent_after = 256", "timers.silent_after", "must be 0 to 255, not 256", "in that range"),
    ("[timers]\npath_after = 16", "timers.path_after", "must be 0 to 15, not 16", "in that range"),
    ("[timers]\npath_after = 1", "timers.path_after", "there are no paths", "set wire.path_bits"),
    (
        TREE + "levels = 4\n[wire]\npath_bits = 6\n[timers]\npath_after = 1",
        "timers.path_after", "watches at most 4,096 paths, not 16,384", "lower wire.path_bits",
    ),
    ("[timers]\npath_probe = 0", "timers.path_probe", "must be 1 to 16777216, not 0", "in that range"),
    ("[timers]\nsilent_probe = 0", "timers.silent_probe", "must be 1 to 16777216, not 0", "in that range"),
    (
        '[timers]\nsilent_after = 1\n[topology]\nlevels = 7',
        "timers.silent_after", "watches at most 4,096 nodes, not 16,384", "leave it at 0",
    ),
    ("[timers]\nslack = -1025", "timers.slack", "must be -1024 to 65536", "in that range"),
    ("[timers]\nceiling = -2", "timers.ceiling", "must be -1 to 4194304", "in that range"),
    ("[timers]\nceiling = 54", "timers.ceiling", "is below the first time-out of 55 cycles", "lower timers.slack"),
    (
        "[timers]\nceiling = 9000", "wire.generation_bits", "16 of the longest Ack intervals are 144000",
        "set wire.generation_bits = 13",
    ),
    ("[timers]\nbackoff_steps = 17", "timers.backoff_steps", "must be 0 to 16", "in that range"),
    ("[timers]\njitter_bits = 13", "timers.jitter_bits", "must be 0 to 12", "in that range"),
    ("[timers]\nwrap_guard = -1", "timers.wrap_guard", "must be 0 to 65536", "in that range"),
    ("[timers]\ntimer_depth = 8", "timers.timer_depth", "must be 9 to 131072, not 8", "leave it at 0"),
    ("[timers]\nack_limit = 256", "timers.ack_limit", "must be 0 to 255", "in that range"),
    ("[timers]\nack_limit = 5", "timers.ack_limit", "repeats for ever (delivered twice)", "set workload.retry_limit"),
    (
        "[timers]\nack_limit = 5\n[workload]\nretry_limit = 9",
        "timers.ack_limit", "but a sender may repeat for", "lower workload.retry_limit",
    ),
    ("[timers]\nquarantine = 16777217", "timers.quarantine", "must be 0 to 16777216", "in that range"),
    (
        "[timers]\nack_limit = 12\nquarantine = 5\n[workload]\nretry_limit = 2",
        "timers.quarantine", "is shorter than the orphan time of", "raise it",
    ),
    ("[wire]\ngeneration_bits = 8", "wire.generation_bits", "can come again after 8960 cycles", "generation_bits = 11"),
    (
        "[wire]\nmtu = 4096\nflit_bits = 16\n[timers]\nbackoff_steps = 16",
        "wire.generation_bits", "can come again after", "lower timers.backoff_steps, or timers.wrap_guard",
    ),
    ("[faults]\nloss = 1.0", "faults.loss", "must be 0.0 to 0.99", "in that range"),
    ("[faults]\nloss = nan", "faults.loss", "must be 0.0 to 0.99, not nan", "in that range"),
    ("[faults]\nflip = -inf", "faults.flip", "must be 0.0 to 0.5", "in that range"),
    ("[[faults.links]]\nlink = 64\nend = 1", "faults.links[0].link", "no link 64", "has 0 to 63"),
    ("[[faults.links]]\nlink = 1", "faults.links[0].end", "must come after start", "start first"),
    ("[[faults.links]]\nstart = -1\nend = 3", "faults.links[0].end", "must come after start", "from cycle 0 on"),
    ("[[faults.links]]\nend = 200000", "faults.links", "from node 0 to node 1", "let a link heal"),
    ("[[faults.stalls]]\nnode = 16\nend = 1", "faults.stalls[0].node", "no node 16", "has 0 to 15"),
    ("[[faults.stalls]]\nnode = 1", "faults.stalls[0].end", "must come after start", "start first"),
    ("[[faults.resets]]\nnode = -1", "faults.resets[0].node", "no node -1", "has 0 to 15"),
    ("[[faults.resets]]\ncycles = 0", "faults.resets[0].cycles", "must be at least 1", "mend both"),
    ("[[faults.resets]]\nstart = -1", "faults.resets[0].cycles", "from a cycle ≥ 0", "mend both"),
    ('[[faults.resets]]\nscope = "host"', "faults.resets[0].scope", "no such scope 'host'", "choose node or ni"),
    ("[[faults.deaths]]\nnode = 16", "faults.deaths[0].node", "no node 16", "has 0 to 15"),
    ("[[faults.deaths]]\nstart = -1", "faults.deaths[0].start", "must be 0 to 2^62, not -1", "choose one of these"),
    ("[[faults.deaths]]\nnode = 1", "faults.deaths", "entries of a dead node would stay", "set timers.ack_limit"),
    ("[[faults.absences]]\nnode = 1", "faults.absences[0].end", "must come after start", "start first"),
    ('[workload]\nkind = "ping"', "workload.kind", "no such workload 'ping'", "trace or kernel"),
    ('[workload]\nkind = "file"', "workload.path", "needs a file", "name it"),
    ('[workload]\nkind = "file"\npath = "a\\u0000"', "workload.path", "a zero byte", "name a file"),
    ("[workload]\nload = 0", "workload.load", "must be 1e-06 to 1000000.0", "in that range"),
    ("[workload]\nmin_length = 3", "workload.min_length", "must be 4 to 32", "in that range"),
    ("[workload]\nmax_length = 33", "workload.max_length", "must be 32 to 32", "in that range"),
    ("[workload]\ncount = -1", "workload.count", "must be 0 to", "in that range"),
    ("[workload]\nstop = -1", "workload.stop", "must be 0 to", "in that range"),
    ("[workload]\ndeadline = 1048576", "workload.deadline", "must be 0 to 1048575", "in that range"),
    (PATTERN + 'pattern = "star"', "workload.pattern", "no such pattern 'star'", "incast or all-to-all"),
    (PATTERN + 'arrivals = "late"', "workload.arrivals", "no such arrivals 'late'", "bernoulli or bursty"),
    (PATTERN + "node = 16", "workload.node", "must be 0 to 15, not 16", "in that range"),
    (PATTERN + "fraction = 1.5", "workload.fraction", "must be 0.0 to 1.0", "in that range"),
    (PATTERN + "burst = 0.5", "workload.burst", "must be 1.0 to", "in that range"),
    (PATTERN + "count = 0", "workload.count", "a pattern without an end", "workload.stop with a load below 1"),
    (PATTERN + "count = 0\nstop = 9\nload = 1", "workload.count", "without an end", "set it"),
    (PATTERN + "count = 0\nstop = 1000000000", "workload.count", "comes to 800,000,000 datagrams", "lower it"),
    (
        PATTERN + 'pattern = "transpose"\n[topology]\nkind = "crossbar"\nnodes = 8',
        "workload.pattern", "a square number of nodes, not 8", "choose another",
    ),
    (
        PATTERN + 'pattern = "bit-reverse"\n[topology]\nkind = "crossbar"\nnodes = 9',
        "workload.pattern", "a power of two of nodes, not 9", "choose another",
    ),
    ('[workload]\nkind = "capture"', "workload.path", "a capture workload needs a file", "name it"),
    (CAPTURE + "cycle_ns = 0", "workload.cycle_ns", "must be 0.001 to", "in that range"),
    (CAPTURE + 'timing = "fast"', "workload.timing", "no such timing 'fast'", "kept or compressed"),
    (CAPTURE + 'hosts = "drop"', "workload.hosts", "no such rule 'drop'", "wrap or refuse"),
    (KERNEL + 'kernel = "lu"', "workload.kernel", "no such kernel 'lu'", "reduce or bfs"),
    (KERNEL + "size = 0", "workload.size", "must be 1 to 1048576 for this kernel, not 0", "change it"),
    (KERNEL + 'kernel = "fft"\nsize = 15', "workload.size", "must be 16 to 8192 for this kernel, not 15", "change it"),
    (KERNEL + "steps = 0", "workload.steps", "must be 1 to 65536", "in that range"),
    (KERNEL + "[wire]\nmtu = 19", "wire.mtu", "at least 20 bytes, not 19", "raise it"),
    ("[loop]\nslots = 1", "loop.slots", "must be 2 to 65520, not 1", "or 0 for no loop"),
    ("[loop]\nslots = 65521", "loop.slots", "must be 2 to 65520, not 65521", "or 0 for no loop"),
    ("[loop]\nflits = 9", "loop.flits", "there is no loop", "set loop.slots"),
    ("[loop]\nslots = 2\nflits = 1", "loop.flits", "must hold one payload of 4 flits", "leave it at 0"),
    (RELAY + "257", "relay.slots", "must be 1 to 256, not 257", "in that range"),
    (
        RELAY.replace('kind = "wire"', 'kind = "tree"\narity = 2\nlevels = 11') + "4",
        "relay.slots", "at most 1,024 nodes, not 2,048", "set it to 0",
    ),
    (RELAY + "4\nradix = 15", "relay.radix", "must be 0 to 14, not 15", "in that range"),
    (RELAY + "4\nwindow = 5", "relay.window", "must be 0 to 4, not 5", "in that range"),
    (RELAY + "4\ncells = 1", "relay.cells", "must be 2 to 256, not 1", "in that range"),
    (RELAY + "4\nbuffers = 0", "relay.buffers", "must be 1 to 64, not 0", "in that range"),
    (RELAY + "4\nrecords = 2", "relay.records", "must be 4 to 1024, not 2", "in that range"),
    (RELAY + "4\nrecords = 20", "relay.records", "must be a power of two, not 20", "take 32"),
    (RELAY + "4\ncontrol = 9", "relay.control", "must be a power of two, not 9", "take 16"),
    (RELAY + "4\nwatch_cycles = 0", "relay.watch_cycles", "must be 64 to 2097152, not 0", "in that range"),
    (RELAY + "4\nwatch_cycles = 64", "relay.watch_cycles", "is less than", "raise it"),
    (RELAY + "4\nentry_cycles = 8200", "relay.entry_cycles", "must be a multiple of 64, not 8200", "round it"),
    (RELAY + "4\nentry_cycles = 8192", "relay.cache_cycles", "held longer than their record lasts", "lower it"),
    (RELAY + "4\nhop_cycles = 0", "relay.hop_cycles", "must be 1 to", "in that range"),
    (
        RELAY.replace('"generator"', '"generator"\nretry_limit = 2')
        + "4\nhop_cycles = 60000\n[timers]\nack_limit = 12",
        "relay.hop_cycles", "but a hop may be repeated for", "or raise timers.ack_limit",
    ),
    (RELAY + "4\nuid_bits = 7", "relay.uid_bits", "must be 8 to 32, not 7", "in that range"),
    (RELAY + "4\nuid_bits = 12", "relay.uid_bits", "half a turn of uids can take 10,240 cycles", "raise it"),
    (RELAY + "4\nuid_bits = 8\nuid_first = 253", "relay.uid_first", "must be 0 to 252, not 253", "in that range"),
    (RELAY + "4\nnotice = -1", "relay.notice", "must be 0 to", "in that range"),
    (RELAY + "4\nspread = 65536", "relay.spread", "must be 0 to 65535, not 65536", "in that range"),
    (RELAY + "4\n[flow]\nports = 4", "relay.slots", "want the same control class", "or flow.ports to 0"),
    (
        RELAY.replace("control_classes = 2", "control_classes = 1") + "4",
        "ni.control_classes", "does not go with relay", "set it to 2, or relay.slots to 0",
    ),
    (RELAY + "4\n[wire]\nclass_bits = 2", "wire.class_bits", "at least 3 with relay", "raise it"),
    (RELAY + "4\n[wire]\nmtu = 16", "wire.mtu", "leaves no byte beside relay's header", "raise it"),
    ('[workload]\nmode = "twice"', "workload.mode", "no such mode 'twice'", "choose exactly_once or relay"),
    ('[workload]\nmode = "relay"', "workload.mode", "there is no relay", "set relay.slots"),
    ("[[faults.notices]]", "faults.notices[0]", "there is no relay to be told", "set relay.slots"),
    (RELAY + "4\n[[faults.notices]]\nnode = 2", "faults.notices[0].node", "no node 2", "has 0 to 1"),
    (RELAY + "4\n[[faults.notices]]\ndied = 0", "faults.notices[0].died", "of its own death", "name another"),
    (RELAY + "4\n[[faults.notices]]\nstart = -1", "faults.notices[0].start", "must be 0 to 2^62", "choose one"),
    (FLOW + "3", "flow.ports", "must be 2, 4, 8 or 16, not 3", "or 0 for no flow"),
    (FLOW + "4\ncells = 1", "flow.cells", "must be 2 to 4096, not 1", "in that range"),
    (FLOW + "4\nin_order = 0", "flow.in_order", "must be 1 to 31, not 0", "in that range"),
    (FLOW + "4\nin_order = 32", "flow.in_order", "must be 1 to 31, not 32", "in that range"),
    (FLOW + "4\npaths = 3", "flow.paths", "must be 1, 2, 4 or 8, not 3", "choose one of these"),
    (FLOW + "4\npaths = 4", "flow.paths", "4 paths need 2 bits in the header", "set wire.path_bits = 2"),
    (FLOW + "4\ntries = 0", "flow.tries", "must be 1 to 255, not 0", "in that range"),
    (FLOW + "4\nwatch = 63", "flow.watch", "must be 64 to 16777216, not 63", "in that range"),
    (FLOW + "4\nquota = 17", "flow.quota", "must be 0 to 16, not 17", "in that range"),
    (FLOW + "4\nsend_limit = 8", "flow.send_limit", "must be a multiple of 16, not 8", "round it"),
    (FLOW + "4\n[loop]\nslots = 2", "loop.slots", "flow has its own way to the own node", "or flow.ports to 0"),
    (
        "[flow]\nports = 4",
        "ni.control_classes", "flow needs it", "write control_classes = 1, control_slots = 4, merge_bits = 16, "
        "reject = true, source_incarnation = true, acceptance = true, sweep = true in [ni], or set flow.ports to 0",
    ),
    (FLOW.replace("sweep = true", "") + "4", "ni.sweep", "flow needs it", "set it to true, or flow.ports to 0"),
    (
        "[relay]\nslots = 4\n[ni]\nacceptance = true",
        "ni.control_classes", "does not go with relay",
        "write control_classes = 2, control_slots = 4, acceptance = false in [ni], or set relay.slots to 0",
    ),
    ("[workload]\nretry_limit = 256", "workload.retry_limit", "must be 0 to 255", "in that range"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "key", "what", "cure"), ERRORS, ids=[f"{row[1]}-{i}" for i, row in enumerate(ERRORS)])
def test_an_error_names_file_key_and_cure(text, key, what, cure):
    with pytest.raises(ConfigError) as raised:
        parse(text, "some.toml")
    message = str(raised.value)
    assert message.startswith(f"some.toml: {key}: "), message
    assert "\n" not in message
    found, _, advice = message.removeprefix(f"some.toml: {key}: ").partition("; ")
    assert what in found, message
    assert cure in advice, message


def test_every_key_of_a_check_is_in_the_list():
    """A new check needs a new row above."""
    tested = {re.sub(r"\[\d+\]", "", key) for _, key, _, _ in ERRORS}
    folders = (Path(package.__file__).parent for package in (sections, topology))
    source = "".join(file.read_text(encoding="utf-8") for folder in folders for file in sorted(folder.glob("*.py")))
    source = source.replace("[{i}]", "").replace("faults.{name}", "faults.stalls")
    assert set(re.findall(r'(?:within|fail)\(\s*f?"([a-z_.]+)"', source)) <= tested


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("[run\n", "is not TOML"),
        ("a = 1\na = 2\n", "is not TOML"),
        ("a = " + "9" * 5000, "is not TOML"),
        ("a = " + "[" * 100_000, "nested too deeply"),
        # The parser would take the square of their number of parts.
        ("a." * 500_000 + "a = 1\n", "nested too deeply"),
        ("a = {" + "'a' . " * 500_000 + '"" = 1}\n', "nested too deeply"),
        ("[" + '"".' * 500_000 + "a]\n", "nested too deeply"),
    ],
)
def test_text_that_is_not_toml(text, what):
    with pytest.raises(ConfigError, match=rf"^some\.toml: .*{what}"):
        parse(text, "some.toml")


def test_a_huge_number_in_another_base():
    with pytest.raises(ConfigError, match=r"run\.seed: is beyond 2\^63"):
        parse("[run]\nseed = 0x" + "f" * 10_000)
    with pytest.raises(ConfigError, match=r"faults\.loss: is beyond 2\^63"):
        parse("[faults]\nloss = 0x" + "f" * 10_000)


def test_files_that_cannot_be_read(tmp_path):
    missing = tmp_path / "none.toml"
    with pytest.raises(ConfigError, match=r"none\.toml: no such file; `lethe new"):
        load(missing)
    with pytest.raises(ConfigError, match="is a directory; name a TOML file in it"):
        load(tmp_path)
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"[run]\nname = '\xff'")
    with pytest.raises(ConfigError, match=r"is not UTF-8 text \(byte 14\); save it as UTF-8"):
        load(binary)
    long = tmp_path / "long.toml"
    long.write_bytes(b"#" * (config.LONGEST_TOML + 1))
    with pytest.raises(ConfigError, match=r"long\.toml: is longer than 4 MB; name a TOML file"):
        load(long)
    under_a_file = binary / "x.toml"
    with pytest.raises(ConfigError, match="cannot be read: Not a directory"):
        load(under_a_file)


@pytest.mark.parametrize("kind", KINDS)
def test_the_example_is_valid_and_says_the_defaults(kind):
    system = parse(example(kind), "example")
    assert system.topology.kind == kind
    commented = [line for line in example(kind).splitlines() if line and not line.startswith(("#", "["))]
    assert all("  # " in line for line in commented)
    assert max(map(len, example(kind).splitlines())) <= 120
    nodes = {"nodes": 16} if kind == "crossbar" else {}
    assert system == System.make("example", topology={"kind": kind, **nodes})


@pytest.mark.parametrize("kind", KINDS)
def test_the_examples_of_faults_are_valid_when_uncommented(kind):
    """Only the example's faults are comments that are TOML.  A death needs limits, a notice needs relay."""
    lines = []
    for line in example(kind).splitlines():
        bare = line.removeprefix("# ")
        lines.append(bare if re.fullmatch(r"\[\[.*]]|\w+ = .*", bare) else line)
    text = (
        "\n".join(lines)
        .replace("\nack_limit = 0", "\nack_limit = 12")
        .replace("\nretry_limit = 0", "\nretry_limit = 2")
    )
    text, _, rest = text.partition("[[faults.notices]]")
    text += rest[rest.index("\n\n") :]
    faults = parse(text).faults
    assert [len(getattr(faults, name)) for name in ("links", "stalls", "resets", "deaths", "absences")] == [1] * 5


def test_the_wrap_guard_follows_the_wire_and_the_timers():
    """T1: fewer generations, or longer Ack intervals, are refused; what the error advises is accepted."""
    System.make()
    with pytest.raises(ConfigError, match=r"set wire\.generation_bits = 13, or lower timers\.backoff_steps") as raised:
        System.make(timers={"backoff_steps": 8})
    assert "143360 cycles" in str(raised.value)
    System.make(timers={"backoff_steps": 8}, wire={"generation_bits": 13})
    System.make(timers={"backoff_steps": 8, "wrap_guard": 0})
    System.make(timers={"backoff_steps": 0}, wire={"generation_bits": 6})


@pytest.mark.parametrize("path", ['a "b" \\ c', "a\nb\tc", "\x7f\x1f", "ληθη 😀", ""])
def test_any_text_survives_toml(path):
    system = System.make("x", workload={"path": path})
    assert parse(dump(system), "x") == system
    assert "\n" not in config.literal(path)


# Fuzz: anything TOML can say gives a System or a ConfigError, at once.

SECTIONS = {
    "run": ("name", "seed", "cycles"),
    "topology": ("kind", "nodes", "arity", "levels", "columns", "rows"),
    "wire": (
        "flit_bits", "node_bits", "slot_bits", "generation_bits", "incarnation_bits", "try_bits", "class_bits",
        "mode_bits", "ext_bits", "mtu", "tag_bits",
    ),
    "router": ("latency", "queue", "max_wait", "flow", "credit_flits", "credit_delay"),
    "ni": (
        "slots", "sets", "ways", "reply_depth", "deliver_flits", "deliver_records", "control_classes",
        "control_flits", "control_records", "control_slots", "reserved_slots", "reserved_classes", "reject",
        "source_incarnation", "merge_bits", "acceptance", "sweep", "deadline_bits", "statistics",
    ),
    "timers": (
        "slack", "ceiling", "backoff_steps", "jitter_bits", "timer_depth", "wrap_guard", "ack_limit", "quarantine",
        "silent_after", "silent_probe",
    ),
    "faults": ("loss", "flip", "links", "stalls", "resets", "deaths", "absences"),
    "study": ("per_destination", "replies", "path", "dilation"),
    "workload": (
        "kind", "load", "min_length", "max_length", "count", "stop", "pattern", "node", "fraction", "arrivals", "burst",
        "path", "timing", "cycle_ns", "hosts", "kernel", "size", "steps", "deadline", "retry_limit",
    ),
}  # fmt: skip
scalars = st.one_of(
    st.integers(0, 20), st.sampled_from([0, 1, 2, 16, 32, 64, 128, 255, 256, 4096, 65536, 2**31, 2**62, 2**63]),
    st.integers(), st.floats(), st.booleans(), st.sampled_from([*KINDS, *WORKLOADS, *PATTERNS, *KERNELS, "x"]),
    st.text(max_size=5),
)  # fmt: skip
fault = st.dictionaries(st.sampled_from(["link", "node", "start", "end", "cycles", "x"]), scalars, max_size=4)
values = st.one_of(scalars, scalars, scalars, st.lists(st.one_of(fault, scalars), max_size=3), fault)


def section(keys: tuple[str, ...]):
    return st.dictionaries(
        st.one_of(st.sampled_from(keys), st.sampled_from(keys), st.text(max_size=4)), values, max_size=6
    )


tables = st.one_of(
    st.fixed_dictionaries({}, optional={name: section(keys) for name, keys in SECTIONS.items()}),
    st.dictionaries(st.one_of(st.sampled_from(list(SECTIONS)), st.text(max_size=4)), values, max_size=3),
)
fuzzing = settings(
    max_examples=400,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@fuzzing
@given(tables)
def test_any_table_gives_a_system_or_a_config_error(table):
    started = time.perf_counter()
    with contextlib.suppress(ConfigError):
        config._build(table, "fuzz")
    assert time.perf_counter() - started < 2


@fuzzing
@given(st.text(max_size=60))
def test_any_text_gives_a_system_or_a_config_error(text):
    with contextlib.suppress(ConfigError):
        parse(text, "fuzz")


ints = st.integers(0, 40)


def near(keys: tuple[str, ...]):
    """Keys that exist with values that are often good, so that the later checks are reached."""
    others = ("links", "stalls", "resets", "loss", "flip", "name", "path", "pattern", "arrivals", "timing", "hosts")
    plain = [key for key in keys if key not in (*others, "kind", "kernel")]
    small = st.sampled_from([0, 1, 2, 3, 4, 8, 12, 16, 20, 32, 64])
    return st.dictionaries(st.sampled_from(plain or ["x"]), small, max_size=2)


legal = st.fixed_dictionaries(
    {
        "topology": st.fixed_dictionaries(
            {"kind": st.sampled_from(KINDS)},
            optional={"nodes": st.just(0), "arity": st.integers(2, 5), "levels": st.integers(1, 8), "rows": ints},
        )
    },
    optional={name: near(keys) for name, keys in SECTIONS.items() if name not in ("topology", "faults", "run")}
    | {
        "faults": st.fixed_dictionaries(
            {},
            optional={
                "links": st.lists(
                    st.fixed_dictionaries({"link": ints, "end": st.sampled_from([9, 10**9])}), max_size=4
                ),
                "stalls": st.lists(st.fixed_dictionaries({"node": ints, "end": ints}), max_size=2),
                "resets": st.lists(st.fixed_dictionaries({"node": ints, "start": ints}), max_size=2),
            },
        )
    },
)


@fuzzing
@given(legal)
def test_a_legal_system_has_every_derived_number_and_survives_toml(table):
    try:
        system = config._build(table, "fuzz")
    except ConfigError:
        return
    assert system.delays[-1] > 0 and system.time_bits >= 16 and system.packet_life > 0
    assert len(system.delays) == system.rungs and len(system.gaps) == 256
    assert system.format.max_flits >= system.format.control_flits
    assert parse(dump(system), "fuzz") == system


def test_lengths_that_are_not_given_follow_a_small_mtu():
    small = System.make(wire={"mtu": 20})
    assert (small.workload.min_length, small.workload.max_length) == (20, 20)
    assert System.make(wire={"mtu": 64}).workload == System.make().workload
    with pytest.raises(ConfigError, match=r"workload\.max_length: must be 20 to 20 \(wire\.mtu\), not 32"):
        System.make(wire={"mtu": 20}, workload={"max_length": 32})


def test_what_has_no_hosts_takes_any_mtu():
    """Its traffic is not looked at; what exactly-once rests on is."""
    alone = System.make(wire={"mtu": 2}, workload={"max_length": 32}, hosted=False)
    assert alone.replace(ni={"slots": 4}).format.mtu == 2
    with pytest.raises(ConfigError, match=r"workload\.retry_limit: must be 0 to 255"):
        System.make(workload={"retry_limit": 256}, hosted=False)
    with pytest.raises(ConfigError, match=r"wire\.mtu: must be 1 to 4096"):
        System.make(wire={"mtu": 0}, hosted=False)


def test_a_byte_order_mark_is_no_mistake(tmp_path):
    (tmp_path / "bom.toml").write_text("[run]\nseed = 7\n", encoding="utf-8-sig")
    assert load(tmp_path / "bom.toml").run.seed == 7


def test_every_section_is_a_field_and_is_checked():
    """The places that name a section (docs/use/integration.md); one that is not checked takes any value."""
    assert {field.name for field in dataclasses.fields(System)} == {*sections.SECTIONS, "source", "hosted"}
    modules = {section.__module__ for section in sections.SECTIONS.values()}
    assert modules == {checked.__name__ for checked in sections._CHECKED}
