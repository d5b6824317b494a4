"""Real servers on this machine, on loopback: Spark, Kafka, Flink and Prometheus, each run by a warden."""
