"""What instances can carry: models of capacity that all policies share, each with its uncertainty."""
