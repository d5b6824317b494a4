"""One experiment per file; each is found by its name."""
