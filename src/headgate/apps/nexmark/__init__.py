"""Queries over an auction house, after Nexmark: those by which papers on autoscaling measure."""
