"""Real servers on this machine, on loopback, each kept by a warden: a Spark cluster."""
