"""Errors in a table, with the table's name."""

from __future__ import annotations


class TableError(ValueError):
    """A table that is missing, in the way, or not of the shape that is needed."""
