"""Wording of the reasons for rejected rows, for every reader."""

from __future__ import annotations

from shoal.pipeline.sources.declaration import AttributeType

# A number in text: digits, sign, point and exponent.
NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
# The same with a comma for the point.
NUMBER_WITH_COMMA = NUMBER.replace(r"\.", ",")
# White space around a number of seconds since 1970, or of their parts.
AROUND_EPOCH = " \t\n\x0b\f\r"
# Places behind the point of its microseconds: Spark's decimals have 38 digits in all.
EPOCH_PLACES = 10
# The supported part of ISO 8601: a date, perhaps a time of day with a T or a space, perhaps a zone.
ISO_TIME = (
    r"^(?P<y>[0-9]{4})-(?P<mo>[0-9]{2})-(?P<d>[0-9]{2})(?:[T ](?P<h>[01][0-9]|2[0-3])"
    r":(?P<mi>[0-5][0-9])(?::(?P<s>[0-5][0-9])(?:\.(?P<f>[0-9]{1,9}))?)?"
    r"(?P<zone>Z|[+-](?:0[0-9]|1[0-7])(?::?[0-5][0-9])?)?)?$"
)
NOUNS: dict[AttributeType, str] = {
    "string": "text",
    "integer": "an integer of 64 bits",
    "double": "a number",
    "boolean": "true or false",
}
