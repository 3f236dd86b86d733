"""The code of docs/use/integration.md, run as a reader would."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "use" / "integration.md"


def test_the_code_of_the_page_runs():
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    assert len(blocks) == 3
    names: dict = {"__name__": "integration"}
    exec(compile("\n".join(blocks), str(PAGE), "exec"), names)
    assert sorted(names["received"]) == sorted(names["SENT"])
    assert names["received"] != []
