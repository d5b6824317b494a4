"""Real servers on this machine, on loopback, each kept by a warden: a Spark cluster, a Kafka broker."""
