"""What is wrong with a table, in words that name it."""

from __future__ import annotations


class TableError(ValueError):
    """A table that is missing, in the way, or not of the shape that is needed."""
