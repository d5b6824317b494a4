"""russo's evaluation: its network of queues in slots of time, and the year of load its policies are compared on."""
