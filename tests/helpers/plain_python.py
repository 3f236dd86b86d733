"""Code run with the compiler off."""

import os
import subprocess
import sys

from tests.helpers import ROOT


def printed(code: str) -> str:
    """What ``code`` prints, in a process of its own whose golden model is plain Python."""
    run = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=os.environ | {"LETHE_NO_JIT": "1"},
        capture_output=True,
        text=True,
        check=True,
        timeout=80,
    )
    return run.stdout.strip()
