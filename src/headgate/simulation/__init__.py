"""Simulated jobs: kernels that process load in virtual time, and the engine that runs them."""
