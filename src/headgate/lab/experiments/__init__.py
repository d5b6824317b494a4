"""Experiments that a user writes: a matrix of simulated runs, spread over Spark, kept as Parquet, compared."""
