"""docs/use/rds.md: its programs run, and its table of errnos is that of the driver."""

import errno
import re
import threading

from lethe_sim.rds import RdsNetwork
from tests.helpers import ROOT
from tests.helpers.rds_transport import ReferenceTransport

PAGE = (ROOT / "docs" / "use" / "rds.md").read_text(encoding="utf-8")


def programs() -> dict:
    """What the page defines."""
    names: dict = {}
    for block in re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL):
        exec(compile(block, "rds.md", "exec"), names)
    return names


def test_the_first_program():
    with RdsNetwork(ReferenceTransport(2)) as network:
        answer, address, cycle = programs()["program"](network)
    assert (answer, address) == (b"how are you?"[::-1], ("10.0.0.2", 4002)) and cycle > 100


def test_programs_of_their_own(tmp_path):
    names = programs()
    with RdsNetwork(ReferenceTransport(4)) as network:
        thread = threading.Thread(target=names["serve"], args=(network, tmp_path / "rds"), daemon=True)
        thread.start()
        for _ in range(100):
            if (tmp_path / "rds").exists():
                break
            thread.join(0.05)
        assert names["talk"](tmp_path / "rds") == (b"", ("10.0.0.1", 0))


def test_every_errno_of_the_driver_is_on_the_page():
    source = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "sim/lethe_sim/rds").glob("*.py"))
    used = set(re.findall(r"rds_error\(\s*errno\.(\w+)|yield errno\.(\w+)", source))
    used = {name for pair in used for name in pair if name}
    table = set(re.findall(r"^\| `(E\w+)` \|", PAGE, re.MULTILINE))
    assert table == used and all(hasattr(errno, name) for name in table)
