"""The attributes of a whole message: its topic, its payload, its user properties.

>>> found, unread = message_attributes("flights/UA", b'{"delay": 41}', None, [("gate", "7")])
>>> found["$topic"], found["delay"], found["gate"], unread
('flights/UA', 41, 7, '')
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from shoal.attributes.objects import MAX_TEXT, RESERVED
from shoal.attributes.payloads import Json, add_payload
from shoal.attributes.topics import topic_attributes
from shoal.language import read_plain_value
from shoal.model import Attributes, Value
from shoal.model.entities import MAX_ATTRIBUTES
from shoal.model.expressions.lists import LIST_PREFIX

RETAIN_ATTRIBUTE = "$retain"


def message_attributes(
    topic: str,
    payload: bytes,
    content_type: str | None,
    user_properties: Sequence[tuple[str, str]],
    *,
    is_retained: bool = False,
    json: Json = "auto",
) -> tuple[Attributes, str]:
    """The attributes, and the reason why a payload that looks like JSON was not parsed.

    Values that cannot be attributes are left out.
    """
    attributes = topic_attributes(topic)
    if is_retained:
        attributes[RETAIN_ATTRIBUTE] = True
    unread = ""
    if payload and json != "never":
        unread = add_payload(payload, content_type, json == "auto", attributes)
    for name, text in user_properties:
        if name and name[0] != RESERVED:
            value = read_plain_value(text)
            if len(text) > MAX_TEXT and type(value) is str and len(value) > MAX_TEXT:
                # A user property replaces a field even when it is too long itself.
                attributes.pop(name, None)
            else:
                attributes[name] = value
    if len(attributes) > MAX_ATTRIBUTES:
        attributes = _first(attributes, {name for name, _ in user_properties})
    return attributes, unread


def _first(attributes: dict[str, Value], given: set[str]) -> dict[str, Value]:
    """The first MAX_ATTRIBUTES attributes; payload fields are dropped before all others."""
    others = {
        name: value
        for name, value in attributes.items()
        if name in given or (name[0] == RESERVED and not name.startswith(LIST_PREFIX))
    }
    first = dict(islice(others.items(), MAX_ATTRIBUTES))
    fields = ((name, value) for name, value in attributes.items() if name not in others)
    first.update(islice(fields, MAX_ATTRIBUTES - len(first)))
    return first
