"""Objectives against results: every load, level and start-up time, for autopilot and other policies."""
