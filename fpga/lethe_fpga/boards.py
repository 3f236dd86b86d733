"""Boards the self-test is built for, all through amaranth-boards."""

import importlib
from dataclasses import dataclass


class BoardError(ValueError):
    """A board that is not known; the message lists those that are."""


@dataclass(frozen=True, kw_only=True)
class Board:
    """One board: where its platform class is, and what it is called."""

    module: str
    platform: str
    about: str


BOARDS = {
    "ulx3s_25f": Board(module="ulx3s", platform="ULX3S_25F_Platform", about="Radiona ULX3S, LFE5U-25F"),
    "ulx3s_45f": Board(module="ulx3s", platform="ULX3S_45F_Platform", about="Radiona ULX3S, LFE5U-45F"),
    "ulx3s_85f": Board(module="ulx3s", platform="ULX3S_85F_Platform", about="Radiona ULX3S, LFE5U-85F"),
    "versa_ecp5": Board(module="versa_ecp5", platform="VersaECP5Platform", about="Lattice Versa, LFE5UM-45F"),
    "versa_ecp5_5g": Board(
        module="versa_ecp5_5g", platform="VersaECP55GPlatform", about="Lattice Versa-5G, LFE5UM5G-45F"
    ),
    "ecp5_5g_evn": Board(
        module="ecp5_5g_evn", platform="ECP55GEVNPlatform", about="Lattice ECP5-5G evaluation, LFE5UM5G-85F"
    ),
}


def platform_for(name: str):
    """A fresh platform object of board ``name``; raises `BoardError` for an unknown one."""
    if name not in BOARDS:
        raise BoardError(f"no such board {name!r}; known are {', '.join(BOARDS)}")
    board = BOARDS[name]
    return getattr(importlib.import_module(f"amaranth_boards.{board.module}"), board.platform)()
