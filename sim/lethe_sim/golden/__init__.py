"""The golden model: the cycle contract as plain functions over named fields, compiled by Numba.

It knows `lethe.spec` and `docs/reference/cycle-contract.md`, nothing of the RTL.  One file per noun, with the same
nouns and rooms as the hardware: `lib`, `link`, `fabric`, `ni`, `services`, `traffic`; what no hardware has is in
`study`.
`state` names all that is kept, `system` puts the parts in order, `model.Golden` runs a system, `blocks` and
`host_blocks` step single units.
"""
