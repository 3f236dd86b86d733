"""The Spark pipeline over traces: the audit of large ones, the comparison of two.

`judging` calls the kernels of `lethe_sim.ledger` through `mapInArrow`; `compare` takes DataFrames and gives DataFrames;
only `jobs` reads and collects; `session` makes the Spark session.  Importing this package does not import Spark.
"""
