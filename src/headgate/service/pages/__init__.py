"""The dashboard: pages rendered here and refreshed by a small script; nothing is built or loaded from elsewhere."""
