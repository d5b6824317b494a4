"""Streaming applications in PySpark Structured Streaming: what the demo, the tests and the lab run."""
