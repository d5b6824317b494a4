"""What holds where nothing is said. Kept apart, so that the command line knows it without loading a policy."""

DEFAULT_POLICY = "autopilot"
"""Who decides."""
