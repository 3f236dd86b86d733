"""The Spark pipeline over traces: the exactly-once audit, the comparison of two traces, the metrics.

`transformations`, `findings` and `metrics` take DataFrames and give DataFrames; only `jobs` reads and collects;
`session` makes the Spark session.  Importing this package does not import Spark.
"""
