"""Errors in a table, with the table's name."""

from __future__ import annotations


class TableError(ValueError):
    """A table that is missing, in the way, or not of the shape that is needed."""


class TableWarning(UserWarning):
    """A test of subscriptions that no publication can pass, as of an attribute that is not there.

    `warnings.simplefilter("ignore", TableWarning)` hides it.
    """
