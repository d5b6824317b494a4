"""Search methods with which a policy, or the lab, finds better settings."""
