"""Sweeps: one TOML that varies another, run on Spark, kept as tables.

`plan` says which runs there are, `work` does one (inside a Spark task), `store` keeps what they leave, `summary`
averages replicas, `jobs` drives Spark.  Importing this package imports none of them.
"""
