"""One module per command of `lethe`; each imports what it needs when it runs, not before."""
