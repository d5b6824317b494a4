"""What handles a Spark session: a cluster or a YARN on this machine, and Ctrl-C for a program that drives Spark."""
