"""Checks before matching: filters against data, and the origin of a truth."""
