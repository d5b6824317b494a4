"""What was asked against what was delivered: every load, level and start-up time, autopilot beside the others."""
