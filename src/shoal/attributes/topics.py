"""The attributes of a topic: the whole, its levels, and how many there are.

>>> topic_attributes("home/door")
{'$topic': 'home/door', '$levels': 2, '$topic.0': 'home', '$topic.1': 'door'}
"""

from __future__ import annotations

from shoal.ledger import remembered
from shoal.model import Value

TOPIC_ATTRIBUTE = "$topic"
LEVELS_ATTRIBUTE = "$levels"
# Levels that have an attribute of their own; deeper ones are told apart by the broker they reach.
MAX_LEVEL_ATTRIBUTES = 8
# Number of topics with remembered attributes, and the length of the longest of them.
_REMEMBERED, _REMEMBERED_CHARACTERS = 1_024, 256


def level_attribute(number: int) -> str:
    """The name of one level of a topic."""
    return f"{TOPIC_ATTRIBUTE}.{number}"


def topic_attributes(topic: str) -> dict[str, Value]:
    """The attributes of a topic; the caller may change the result."""
    if len(topic) <= _REMEMBERED_CHARACTERS:
        return _remembered(topic).copy()
    return _read(topic)


def _read(topic: str) -> dict[str, Value]:
    levels = topic.split("/")
    attributes: dict[str, Value] = {TOPIC_ATTRIBUTE: topic, LEVELS_ATTRIBUTE: len(levels)}
    for number, level in enumerate(levels[:MAX_LEVEL_ATTRIBUTES]):
        attributes[level_attribute(number)] = level
    return attributes


_remembered = remembered("attributes of topics", most=_REMEMBERED, bytes_each=1_500)(_read)
