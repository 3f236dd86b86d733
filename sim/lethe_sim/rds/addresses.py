"""IPv4 addresses of nodes (RDS-04, RDS-05).  They are not on the wire: they only find the node."""

import errno
import ipaddress
import os

__all__ = ["Addresses", "rds_error"]


def rds_error(number: int, why: str = "") -> OSError:
    """The error of a socket call: ``number`` as its `errno`, and why in words."""
    text = os.strerror(number)
    return OSError(number, f"{text}: {why}" if why else text)


class Addresses:
    """Which node has which address.

    Parameters
    ----------
    nodes : number of nodes; node n has the (n + 1)-th address of the network
    network : for example "10.0.0.0/24"; it must have room for every node

    Raises
    ------
    ValueError : the network is no IPv4 network, or too small
    """

    def __init__(self, nodes: int, network: str = "10.0.0.0/8"):
        try:
            whole = ipaddress.IPv4Network(network)
        except ValueError as error:
            raise ValueError(f"network {network!r}: {error}; name one as 10.0.0.0/24") from None
        if whole.num_addresses < nodes + 2:
            raise ValueError(f"network {network}: has no room for {nodes} nodes; take a shorter prefix")
        self.network = whole
        self._node = {str(whole[node + 1]): node for node in range(nodes)}
        self._own = {node: address for address, node in self._node.items()}
        self._nodes = nodes

    def node(self, address: str) -> int | None:
        """The node that has an address; None: nobody has."""
        return self._node.get(address)

    def of(self, node: int) -> str:
        """The address that names a node as a source: its own, or, if that has moved, the first that moved to it."""
        own = self._own[node]
        if self._node.get(own) == node:
            return own
        return next((address for address, at in self._node.items() if at == node), own)

    def move(self, address: str, node: int) -> None:
        """An address is that of another node from now on (RDS-11); a new one may be given, too.

        What is under way goes where it was going.  Sockets stay at their node.
        """
        if not 0 <= node < self._nodes:
            raise ValueError(f"node {node}: there are {self._nodes}; name one of 0 to {self._nodes - 1}")
        if ipaddress.IPv4Address(address) not in self.network:
            raise ValueError(f"address {address}: is not of the network {self.network}; name one that is")
        self._node[address] = node

    @staticmethod
    def checked(address: object) -> tuple[str, int]:
        """An (address, port) as Python's `socket` takes it; EINVAL if it is none."""
        if not isinstance(address, (tuple, list)) or len(address) != 2:
            raise rds_error(errno.EINVAL, f"{address!r} is no (address, port)")
        host, port = address
        if not isinstance(host, str) or isinstance(port, bool) or not isinstance(port, int):
            raise rds_error(errno.EINVAL, f"{address!r} is no (address, port)")
        if not 0 <= port <= 0xFFFF:
            raise rds_error(errno.EINVAL, f"port {port} is not 0 to 65535")
        try:
            return str(ipaddress.IPv4Address(host or "0.0.0.0")), port
        except ValueError:
            raise rds_error(errno.EINVAL, f"{host!r} is no IPv4 address") from None
