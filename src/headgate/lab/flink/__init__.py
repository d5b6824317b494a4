"""Experiments on a real Flink cluster of this machine."""
