"""What runs the operators. The only place, with ``apps``, that imports an engine."""
