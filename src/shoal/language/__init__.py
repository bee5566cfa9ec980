"""Text to filters and back: SQL (`parse`, `format_filter`) and the PADRES language."""

from shoal.language.errors import FilterSyntaxError
from shoal.language.sql import format_filter, parse

__all__ = ["FilterSyntaxError", "format_filter", "parse"]
