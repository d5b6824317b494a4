"""What policies that act as Kubernetes does share: how fast it grows, and to what it shrinks."""
