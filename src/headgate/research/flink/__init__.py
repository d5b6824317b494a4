"""Experiments on a real Flink cluster of this machine."""

START_S = 30.0
"""About how long a cluster and a job take to start; for the progress."""
