"""What tests of several folders share: benches, systems, traces."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
