"""A real Kubernetes of one node on this machine, in namespaces of its own; it needs root."""
