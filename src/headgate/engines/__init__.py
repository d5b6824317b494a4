"""What runs the operators. The only place, with ``apps`` and ``local``, that imports an engine."""
