"""The golden model: the cycle contract as plain functions over NumPy arrays, compiled by Numba.

It knows `lethe.spec` and `docs/reference/cycle-contract.md`, nothing of the RTL.  One file per noun, with the same
nouns as the hardware; `model.Golden` runs a system, `blocks` steps single units.
"""
