"""IPv4 addresses find nodes (RDS-04, RDS-05), and may move (RDS-11)."""

import errno

import pytest

from lethe_sim.rds import Addresses


def test_by_default_node_n_has_the_next_address_of_10_0_0_0():
    addresses = Addresses(300)
    assert (addresses.of(0), addresses.of(254), addresses.of(255)) == ("10.0.0.1", "10.0.0.255", "10.0.1.0")
    assert [addresses.node(addresses.of(node)) for node in range(300)] == list(range(300))
    assert addresses.node("10.0.0.0") is None and addresses.node("10.0.1.45") is None


def test_any_network_that_has_room():
    addresses = Addresses(6, "192.168.7.0/29")
    assert (addresses.of(0), addresses.of(5)) == ("192.168.7.1", "192.168.7.6")
    with pytest.raises(ValueError, match=r"192.168.7.0/29: has no room for 7 nodes; take a shorter prefix"):
        Addresses(7, "192.168.7.0/29")
    with pytest.raises(ValueError, match=r"network '192.168.7.1/24': .*; name one as 10.0.0.0/24"):
        Addresses(2, "192.168.7.1/24")


def test_an_address_moves_to_another_node():
    addresses = Addresses(3)
    addresses.move("10.0.0.1", 2)
    assert addresses.node("10.0.0.1") == 2
    # Node 2 answers with its own; node 0 has none, and keeps its name.
    assert addresses.of(2) == "10.0.0.3" and addresses.of(0) == "10.0.0.1"
    addresses.move("10.0.0.3", 0)
    assert addresses.of(2) == "10.0.0.1" and addresses.of(0) == "10.0.0.3"
    addresses.move("10.0.0.99", 1)
    assert addresses.node("10.0.0.99") == 1 and addresses.of(1) == "10.0.0.2"
    with pytest.raises(ValueError, match="there are 3; name one of 0 to 2"):
        addresses.move("10.0.0.1", 3)
    with pytest.raises(ValueError, match="is not of the network"):
        addresses.move("11.0.0.1", 0)


@pytest.mark.parametrize(
    "wrong",
    ["10.0.0.1:5", ("10.0.0.1",), ("10.0.0.1", 1, 2), ("10.0.0.1", "5"), ("10.0.0.1", -1), ("10.0.0.1", 65536),
     ("10.0.0.256", 5), ("host", 5), (1, 5), ("10.0.0.1", True), None],
)  # fmt: skip
def test_what_is_no_address_is_einval(wrong):
    with pytest.raises(OSError) as caught:
        Addresses.checked(wrong)
    assert caught.value.errno == errno.EINVAL


def test_an_address_is_as_python_has_it():
    assert Addresses.checked(["10.0.0.1", 65535]) == ("10.0.0.1", 65535)
    assert Addresses.checked(("", 0)) == ("0.0.0.0", 0)
