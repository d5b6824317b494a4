"""Demeter's published runs of two Flink jobs, and a simulator calibrated to them in which policies run."""
