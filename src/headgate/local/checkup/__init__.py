"""Checks of this machine and of the services that it uses; each finding is one sentence with a remedy."""
