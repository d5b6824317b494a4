"""Base classes, registry, settings and helpers for all policies."""
