"""Demeter's published runs of two Flink jobs: what was measured, a simulator calibrated to it, and policies in that."""
