"""What is wrong with this machine, said in plain words: one check per file."""
