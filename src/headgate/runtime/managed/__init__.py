"""Managed queries: restarted after failures, and given between two batches what Spark fixes at the start."""
