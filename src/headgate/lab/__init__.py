"""Runs, comparisons and reports."""
