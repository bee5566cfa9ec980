"""Text to filters and back: SQL (`parse`, `format_filter`), PADRES, queries of topic filters.

Decisions
---------

- **Ordering and NaN as in Spark SQL** (`model/values.py`). NaN equals NaN and is above every
  number. It keeps Spark an exact judge, and makes every operator's complement an operator, so that
  NOT disappears from normal forms without touching the unknown.
- **Conditions and values have one grammar**, as both stand in parentheses; the builder tells them
  apart. Keywords of expressions (`case`, `end`) stay names where no expression can stand.
- **String literals as in Spark SQL**, so that one text means one thing in both.
"""

from shoal.language.errors import CostlyFilterError, FilterSyntaxError
from shoal.language.query import (
    TopicQuery,
    may_have_query,
    parse_topic_query,
    read_plain_value,
    read_topic_query,
)
from shoal.language.sql import parse, parse_value, prepare
from shoal.language.writing import format_filter, format_value

__all__ = [
    "CostlyFilterError",
    "FilterSyntaxError",
    "TopicQuery",
    "format_filter",
    "format_value",
    "may_have_query",
    "parse",
    "parse_topic_query",
    "parse_value",
    "prepare",
    "read_plain_value",
    "read_topic_query",
]
