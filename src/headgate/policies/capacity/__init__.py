"""What instances can carry: models of capacity that policies share, and whether they still hold."""
