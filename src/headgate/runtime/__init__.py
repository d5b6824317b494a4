"""The loop with its clock and threads, and the wiring of engine, policy, guards and journal."""
