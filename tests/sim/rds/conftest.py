"""Networks to test the driver on."""

from collections.abc import Iterator

import pytest

from lethe_sim.rds import RdsNetwork
from tests.helpers.rds_transport import ReferenceTransport


@pytest.fixture
def network() -> Iterator[RdsNetwork]:
    """Four nodes that lose a tenth."""
    with RdsNetwork(ReferenceTransport(4, seed=1)) as one:
        yield one
