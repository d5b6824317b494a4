"""Applications in Flink SQL: the same results from the same records as those in Spark, which are their check."""
