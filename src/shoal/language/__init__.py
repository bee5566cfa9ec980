"""Text to filters and back: SQL (`parse`, `format_filter`), PADRES, queries of topic filters."""

from shoal.language.errors import FilterSyntaxError
from shoal.language.query import may_have_query, parse_topic_query, read_plain_value
from shoal.language.sql import format_filter, parse

__all__ = [
    "FilterSyntaxError",
    "format_filter",
    "may_have_query",
    "parse",
    "parse_topic_query",
    "read_plain_value",
]
