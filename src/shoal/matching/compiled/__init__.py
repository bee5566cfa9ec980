"""The index's inside for batches: immutable parts, compiled of rows of filters."""
