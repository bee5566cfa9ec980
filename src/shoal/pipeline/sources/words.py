"""How rejected rows are told what is wrong with them, whoever reads them."""

from __future__ import annotations

from shoal.pipeline.sources.declaration import AttributeType

# A number in text: digits, sign, point and exponent.
NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
NOUNS: dict[AttributeType, str] = {
    "string": "text",
    "integer": "an integer of 64 bits",
    "double": "a number",
    "boolean": "true or false",
}


def not_of_type(column: str, said: str, noun: str) -> str:
    return f"column '{column}': '{said}' is not {noun}"


def not_a_time(column: str, said: str, format: str) -> str:
    return f"time column '{column}': '{said}' is not a time of the form {format}"
