"""The dashboard: pages that are made here and kept up to date by a little script, with nothing to build or to load from
elsewhere."""
