"""Managed queries: kept running, and given between two batches what Spark fixes at the start."""
