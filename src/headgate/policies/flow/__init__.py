"""What goes through operators: what each was given, did and gave over a span, and what that asks of those after it."""
