"""What the policies that size a job for a block of time at once share: when they decide, and for how much load."""
