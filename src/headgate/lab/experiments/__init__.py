"""Experiments: a matrix of simulated runs, spread over Spark, stored as Parquet, compared."""
