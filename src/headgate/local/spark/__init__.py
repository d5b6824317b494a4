"""What handles a Spark session: a cluster on this machine, and Ctrl-C for a program that drives Spark."""
