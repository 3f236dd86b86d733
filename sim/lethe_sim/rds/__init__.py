"""RDS over flow: the driver of a network of nodes, with the socket calls of Linux's RDS (docs/use/rds.md)."""

from .addresses import Addresses
from .network import RdsNetwork
from .notices import GivenUp
from .socket import Socket, SocketMessage

__all__ = ["Addresses", "GivenUp", "RdsNetwork", "Socket", "SocketMessage"]
