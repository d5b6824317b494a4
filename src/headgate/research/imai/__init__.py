"""imai's evaluation: its applications, loads and simulation, rebuilt. Curves and two of the loads are ours."""
