"""The ledger of a run, one row for each datagram, and the findings: what breaks a rule.

Rules are kernels: functions over the columns of one `Group`, which holds all events of some send slots, or of one
`Pairs`, which holds what happened between some pairs of nodes.  `here` calls them in this process,
`lethe_sim.pipeline.judging` on Spark.  A further rule is one more function in `judge.SLOT_KERNELS` or
`judge.PAIR_KERNELS`.
"""
