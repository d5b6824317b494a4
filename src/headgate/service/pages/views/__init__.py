"""What pages show, as words and numbers; templates only place it."""
