"""The numbers of RDS, as Linux has them, and those that are this driver's own (RDS-08).

Python's `socket` module has most of Linux's only where the system has them, so they are here.
"""

#: Domain, type and level of sockets.
AF_RDS = PF_RDS = 21
SOCK_SEQPACKET = 5
SOL_SOCKET, SOL_RDS = 1, 276

#: Options of level SOL_SOCKET.
SO_TYPE, SO_ERROR, SO_SNDBUF, SO_RCVBUF, SO_PROTOCOL, SO_DOMAIN = 3, 4, 7, 8, 38, 39

#: Options of level SOL_RDS.
RDS_CANCEL_SENT_TO, RDS_GET_MR, RDS_FREE_MR, RDS_RECVERR, RDS_CONG_MONITOR, RDS_GET_MR_FOR_DEST = 1, 2, 3, 5, 6, 7
SO_RDS_TRANSPORT = 8
#: This driver's own: whether a message that ended without an answer is given up, or sent once more.
SO_RDS_ENDED = 0x4C01
FLUSH, RESEND = 0, 1

#: Transports.  Programs for Linux set RDS_TRANS_IB or RDS_TRANS_TCP; here either is this network.
RDS_TRANS_IB, RDS_TRANS_TCP, RDS_TRANS_LETHE = 0, 2, 3
RDS_TRANS_NONE = -1

#: Types of control messages of level SOL_RDS.
RDS_CMSG_RDMA_ARGS, RDS_CMSG_RDMA_DEST, RDS_CMSG_RDMA_MAP, RDS_CMSG_RDMA_STATUS, RDS_CMSG_CONG_UPDATE = 1, 2, 3, 4, 5
RDS_CMSG_ATOMICS = (6, 7, 8, 9)
#: This driver's own: a message of this socket was given up (`notices.GivenUp`); a message that may arrive twice.
RDS_CMSG_GIVEN_UP, RDS_CMSG_AGAIN = 0x4C01, 0x4C02

#: Flags of messages.
MSG_OOB, MSG_PEEK, MSG_CTRUNC, MSG_TRUNC, MSG_DONTWAIT = 0x1, 0x2, 0x8, 0x20, 0x40

#: Bits of poll.
POLLIN, POLLPRI, POLLOUT, POLLERR, POLLHUP, POLLNVAL = 0x1, 0x2, 0x4, 0x8, 0x10, 0x20
POLLRDNORM, POLLWRNORM, POLLWRBAND = 0x40, 0x100, 0x200

#: Bytes of the longest message (RDS-13).
LONGEST = 1 << 20
#: SO_SNDBUF and SO_RCVBUF of a new socket: Linux's net.core.wmem_default and rmem_default.
BUFFER = 212_992
#: Port to which pings go; who sends them takes any.
PING_PORT = 0
#: Port that RDS keeps for probes; nobody may bind it.
PROBE_PORT = 1
#: Bits of the congestion monitor's mask: a port has bit (port mod 64) (RDS-23).
MONITOR_BITS = 64
