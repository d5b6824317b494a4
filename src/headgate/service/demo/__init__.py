"""A demonstration that runs everywhere: simulated jobs in a process of their own, joined like any other."""
