"""Finds all faults of a network file and of its named files, at once, for `shoal check`."""
