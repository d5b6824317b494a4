"""Who may do what: tokens, limits, and what keeps other sites out."""
