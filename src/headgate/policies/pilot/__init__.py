"""The parts of autopilot: what it learns about an operator, and the lookahead that compares sizes.

``operator_model`` holds what is learned: ``load`` and ``load_scenarios`` (arrivals), ``batch_time``, ``late_price``,
``rescale_downtime``, ``scale_in_window`` and ``calibration``. ``lookahead`` weighs sizes by simulating them in
``rollout`` (inner loops in ``rollout_loops``). ``shared_bound`` divides an end-to-end bound among operators.
"""
