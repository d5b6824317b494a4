"""Several streaming jobs joined by topics, scaled together: read from a file, run, and reported on as one."""
