"""Programs with sockets do the same, in the same cycles, over the golden model and over the RTL beside it."""

import errno
import os
import re
import signal
import uuid
from collections.abc import Callable

import pytest

from lethe.spec.config import System
from lethe.spec.sections.flow import OF_NI
from lethe.spec.toml import dump
from lethe_sim.cli import main
from lethe_sim.lockstep import ported, simulators
from lethe_sim.lockstep.divergence import DivergenceError
from lethe_sim.rds import RdsNetwork, stress
from lethe_sim.rds import constants as rds
from lethe_sim.rds.golden import GoldenFlow
from lethe_sim.rds.ping import ping
from lethe_sim.rds.rtl import RtlFlow, RtlProcess
from tests.helpers.marked import running
from tests.helpers.once import once
from tests.helpers.rds_sockets import bound, raises, until_quiet

A, B = ("10.0.0.1", 4001), ("10.0.0.2", 4002)
SECTIONS = {
    "topology": {"kind": "wire"},
    "wire": {"mtu": 24},
    "flow": {"ports": 4, "cells": 4, "in_order": 2},
    "ni": OF_NI | {"slots": 6, "control_slots": 2},
    "faults": {
        "loss": 0.02,
        "stalls": [{"node": 1, "start": 150, "end": 250}],
        "resets": [{"node": 1, "start": 8000, "cycles": 4}],
    },
}
SYSTEM = System.make(**SECTIONS)


def pinged(network: RdsNetwork) -> list:
    return [*ping(network, 0, "10.0.0.1", "10.0.0.2", count=5, interval=700)]


def stressed(network: RdsNetwork) -> list:
    addresses = [network.addresses.of(node) for node in range(len(network.nodes))]
    asked = stress.Stress(tasks=4, request=40, ack=20, depth=2, cycles=1500, interval=500)
    running = stress.Running(network, addresses, asked)
    found = [*running.run()]
    running.close()
    until_quiet(network)
    assert sum(one.requests for one in found) == sum(one.acks for one in found) > 10
    return found


def reset(network: RdsNetwork) -> list:
    a, b, found = bound(network, 0, 4001), bound(network, 1, 4002), []
    for at in (1000, 7980, 8100, 12000):
        network.run(max(0, at - network.cycle))
        a.sendto(b"%d" % at, B)
        found += [b.recv(99), network.cycle]
    return [*found, network.information(0).counters, network.information(1).counters]


def congested(network: RdsNetwork) -> list:
    a, b, other, sent, found = bound(network, 0, 4001), bound(network, 1, 4002), bound(network, 1, 4003), 0, []
    b.setsockopt(rds.SOL_SOCKET, rds.SO_RCVBUF, 100)
    a.setsockopt(rds.SOL_RDS, rds.RDS_CONG_MONITOR, 1)
    with raises(errno.ENOBUFS):
        while sent < 100:
            sent += a.sendto(bytes([sent]) * 20, rds.MSG_DONTWAIT, B) // 20
            network.run(60)
    a.sendto(b"elsewhere", ("10.0.0.2", 4003))
    found += [sent, network.cycle, other.recv(99), network.cycle]
    found += [b.recv(99) for _ in range(sent)]
    assert a.poll(rds.POLLIN, 3000) == rds.POLLIN
    return [*found, a.recvmsg(0).ancdata, network.cycle]


def cancelled(network: RdsNetwork) -> list:
    a, b = bound(network, 0, 4001), bound(network, 1, 4002)
    a.setsockopt(rds.SOL_SOCKET, rds.SO_SNDBUF, 4000)
    for number in range(10):
        a.sendto(bytes([number]) * 50, B)
    network.run(400)
    a.cancel_sent_to(B)
    until_quiet(network)
    counters, taken = network.information(0).counters, []
    while b.poll(rds.POLLIN, 0):
        taken.append(b.recv(99))
    assert 0 < counters["send_cancelled"] < 10
    return [counters, taken, network.cycle]


PROGRAMS = [pinged, stressed, reset, congested, cancelled]


@pytest.fixture(scope="module")
def verilog(tmp_path_factory) -> str:
    """Of `SYSTEM`, which is built."""

    def made() -> str:
        text = ported.emit(SYSTEM)
        simulators.build(text, ported.TOP)
        return text

    return once(tmp_path_factory, "sockets", made)


@pytest.mark.push
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_a_program_does_the_same_over_golden_model_and_rtl(program: Callable[[RdsNetwork], list], verilog):
    with RdsNetwork(GoldenFlow(SYSTEM)) as network:
        wanted = program(network)
    with RdsNetwork(RtlFlow(SYSTEM, verilog=verilog)) as network:
        assert program(network) == wanted


@pytest.mark.push
@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"faults": {"loss": 0.3}}, r"links, 0 to 7: golden link0 LOST, rtl nothing"),
        ({"timers": {"slack": 9}}, r"flow0, flags: golden [a-z_. ]+, rtl [a-z_. ]+ cancel\.ready"),
    ],
    ids=["loss", "slack"],
)
def test_an_rtl_of_another_system_parts_in_a_cycle_that_is_named(change, said, verilog):
    said = (
        rf"RTL and golden model part in cycle (\d+): {said}(, and \d+ more)?; one of them is wrong: report it with .*"
    )
    with RdsNetwork(RtlFlow(SYSTEM.replace(**change), verilog=verilog)) as network:
        with pytest.raises(DivergenceError) as parted:
            stressed(network)
        found = re.fullmatch(said, str(parted.value))
        assert found and parted.value.cycle == int(found[1]), parted.value
        with pytest.raises(simulators.ToolError, match="the simulator has ended, by `close`, an error or an interrupt"):
            network.run(1)


@pytest.mark.push
@pytest.mark.full
def test_a_fault_that_only_a_host_port_shows(verilog):
    broken, count = re.subn(r"(assign ports\[.*host__notice__payload) :", r"\1 ^ 1'b1 :", verilog, count=1)
    assert count == 1
    said = r"in cycle \d+: host0, notice: golden peer 1 up 1 map 0, rtl peer 0 up 1 map 0; one of them is wrong"
    with RdsNetwork(RtlFlow(SYSTEM, verilog=broken)) as network, pytest.raises(DivergenceError, match=said):
        pinged(network)


@pytest.mark.push
@pytest.mark.full
@pytest.mark.parametrize("latency", [1, 3])
def test_four_nodes_with_words_that_come_late(latency):
    """What the RTL shows last is compared when the network is closed."""
    topology = {"kind": "crossbar", "nodes": 4}
    system = System.make(**SECTIONS | {"topology": topology, "router": {"latency": latency}})
    assert system.layout.lag == latency - 1
    with RdsNetwork(GoldenFlow(system)) as network:
        wanted = stressed(network), reset(network)
    with RdsNetwork(RtlFlow(system)) as network:
        assert (stressed(network), reset(network)) == wanted


@pytest.fixture
def mark(monkeypatch) -> str:
    """What `running` finds the simulators of a test by."""
    made = uuid.uuid4().hex
    monkeypatch.setenv("LETHE_TEST_MARK", made)
    return made


@pytest.mark.push
def test_a_simulator_that_is_gone_is_told(verilog, mark):
    with RdsNetwork(RtlFlow(SYSTEM, verilog=verilog)) as network:
        for process in running(mark):
            os.kill(process, signal.SIGKILL)
        with pytest.raises(simulators.ToolError, match=r"the simulator has ended by itself: .*; start again"):
            network.run(5000)


@pytest.mark.push
def test_no_simulator_is_left(verilog, mark, monkeypatch):
    with RdsNetwork(RtlFlow(SYSTEM, verilog=verilog)):
        assert running(mark)
    assert not running(mark)

    def interrupted(self):
        raise KeyboardInterrupt

    with RdsNetwork(RtlFlow(SYSTEM, verilog=verilog)) as network:
        monkeypatch.setattr(RtlProcess, "confirm", interrupted)
        with pytest.raises(KeyboardInterrupt):
            network.run(1)
        assert not running(mark)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"flow": {"ports": 0}}, r"flow\.ports: is 0, so there are no ports; set it to 2, 4, 8 or 16"),
        ({"study": {"per_destination": 1}}, r"study\.per_destination: 1 is for the golden model only, there is no RTL"),
    ],
)
def test_a_system_without_flow_or_without_rtl_is_refused(change, said):
    with pytest.raises(ValueError, match=said):
        RtlFlow(SYSTEM.replace(**change))


@pytest.mark.push
def test_the_command(tmp_path, verilog, monkeypatch, capsys):
    """As without --rtl; one that differs is one line, and exit code 1."""
    monkeypatch.setattr(ported, "emit", lambda system: verilog)
    path = tmp_path / "my.toml"
    path.write_text(dump(SYSTEM))
    told = []
    for rtl in ([], ["--rtl"]):
        assert main(["rds", "ping", str(path), "10.0.0.2", "--count", "2", *rtl]) == 0
        told.append(capsys.readouterr().out)
    assert told[0] == told[1]
    path.write_text(dump(SYSTEM.replace(faults={"loss": 0.3})))
    assert main(["rds", "stress", str(path), "--tasks", "2", "--rtl"]) == 1
    err = capsys.readouterr().err
    assert err.startswith("lethe: RTL and golden model part in cycle ") and err.count("\n") == 1
