"""The parts of autopilot: what it learns of the load and the service, what lateness costs, and how it looks ahead."""
