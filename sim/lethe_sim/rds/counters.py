"""What a node counts, under the names of `rds-info -c` where Linux counts the same."""

from dataclasses import dataclass, fields

__all__ = ["Counted"]


@dataclass
class Counted:
    """Since the network was made; a reset of the node does not clear it."""

    conn_reset: int = 0  # a peer that was up is no more
    recv_drop_no_sock: int = 0  # a message whose port was closed on its way to the driver (RDS-56)
    recv_drop_partial: int = 0  # a long message of which a part did not come
    recv_queued: int = 0  # a message was put into a socket's queue
    recv_delivered: int = 0  # a program has read it
    recv_ping: int = 0  # a ping came
    recv_congested: int = 0  # a socket's queue passed SO_RCVBUF: in RDS a mistake of the program (RDS-37)
    send_queued: int = 0  # a program has sent a message
    send_queue_full: int = 0  # … or would have, if SO_SNDBUF allowed it
    send_drop_acked: int = 0  # a message was acknowledged
    send_again: int = 0  # a message is sent once more, after it ended without an answer
    send_given_up: int = 0  # a message ended without an answer, and its socket said FLUSH
    send_cancelled: int = 0  # a message was cancelled by its socket
    send_pong: int = 0  # a ping was answered
    cong_update_received: int = 0  # a peer's congested ports changed
    cong_send_error: int = 0  # a send to a congested port was refused
    cong_send_blocked: int = 0  # … or waited

    def rows(self) -> dict[str, int]:
        """Value by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}
