"""Checks before a comparison: the origin of a truth."""
