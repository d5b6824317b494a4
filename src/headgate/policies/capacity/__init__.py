"""Models of the capacity of instances that policies share, and checks whether they are still valid."""
