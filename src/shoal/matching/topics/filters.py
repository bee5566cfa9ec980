"""MQTT topic names and topic filters: their syntax, and matching.

A topic is levels between slashes, which may be empty.  In a filter `+` stands for one level and a
last `#` for all that follow, none included; neither stands for a first level that begins with `$`.
`$share/group/filter` is a shared subscription: of each group, one member gets a publication.

>>> read_topic_filter("$share/audit/flights/+/delays")
TopicFilter(levels=('flights', '+', 'delays'), group='audit')
>>> topic_matches("flights/#", "flights"), topic_matches("+/status", "$SYS/status")
(True, False)
>>> read_topic_filter("flights/#/delays")  # doctest: +IGNORE_EXCEPTION_DETAIL
Traceback (most recent call last):
TopicError: topic filter 'flights/#/delays', level 2: # stands for all levels that follow, ...

Source: MQTT Version 5.0, sections 1.5.4, 4.7 and 4.8.2.
"""

from __future__ import annotations

from typing import NamedTuple

ONE_LEVEL = "+"
ALL_LEVELS = "#"
_SHARED = "$share/"

# Largest length that MQTT's two-byte length of a string can express.
MAX_TOPIC_BYTES = 65_535
# Every level of a stored filter or topic is a node of a trie: without a limit, one packet of
# slashes would cost 65,536 of them.  More than 200 slashes are refused.
MAX_TOPIC_LEVELS = 201


class TopicError(ValueError):
    """An invalid topic name or topic filter; the text has the fault, its place and the remedy."""


class TopicDepthError(TopicError):
    """MQTT allows it, but it has too many levels."""


class TopicFilter(NamedTuple):
    """A topic filter taken apart; `group` is the name of the shared subscription's group."""

    levels: tuple[str, ...]
    group: str | None = None

    @property
    def has_wildcards(self) -> bool:
        return ONE_LEVEL in self.levels or ALL_LEVELS in self.levels


def read_topic_filter(text: str) -> TopicFilter:
    """The levels and the group of a topic filter; TopicError if it is not allowed."""
    where = f"topic filter {_shortened(text)}"
    _check_string(text, where)
    if not text.startswith(_SHARED):
        return TopicFilter(_filter_levels(text, where))
    group, slash, rest = text.removeprefix(_SHARED).partition("/")
    form = "a shared subscription is $share/group/filter"
    if not group:
        raise TopicError(f"{where}: the group between the first two slashes is empty; {form}")
    if ONE_LEVEL in group or ALL_LEVELS in group:
        raise TopicError(
            f"{where}: group {group!r} has a wildcard; {form}, without + or # in group"
        )
    if not slash or not rest:
        raise TopicError(f"{where}: there is no filter behind the group {group!r}; {form}")
    return TopicFilter(_filter_levels(rest, where), group)


def check_topic(topic: str) -> None:
    """Raise TopicError unless publications can be sent to this topic."""
    where = f"topic {_shortened(topic)}"
    _check_string(topic, where)
    for wildcard in (ONE_LEVEL, ALL_LEVELS):
        if wildcard in topic:
            raise TopicError(
                f"{where}, character {topic.index(wildcard) + 1}: {wildcard} is a wildcard; it can "
                "stand in a topic filter, but nothing can be published to it"
            )
    _check_depth(topic, where)


def topic_matches(topic_filter: str, topic: str) -> bool:
    """Return whether a topic filter, shared or not, matches a topic, straight from the
    definition.
    """
    levels, _ = read_topic_filter(topic_filter)
    parts = topic.split("/")
    if topic.startswith("$") and levels[0] in (ONE_LEVEL, ALL_LEVELS):
        return False
    if levels[-1] == ALL_LEVELS:
        levels = levels[:-1]
        parts = parts[: len(levels)]
    return len(levels) == len(parts) and all(
        level in (ONE_LEVEL, part) for level, part in zip(levels, parts, strict=True)
    )


def _filter_levels(text: str, where: str) -> tuple[str, ...]:
    _check_depth(text, where)
    levels = tuple(text.split("/"))
    for number, level in enumerate(levels, start=1):
        place = f"{where}, level {number}"
        for wildcard in (ONE_LEVEL, ALL_LEVELS):
            if wildcard in level and level != wildcard:
                raise TopicError(
                    f"{place}: {wildcard} stands beside other characters in {_shortened(level)}; "
                    "a wildcard is a level of its own, between slashes"
                )
        if level == ALL_LEVELS and number < len(levels):
            raise TopicError(
                f"{place}: # stands for all levels that follow, so it comes last; "
                "for one level write +"
            )
    return levels


def _check_string(text: str, where: str) -> None:
    if not text:
        raise TopicError(f"{where}: it is empty; give at least one character")
    if "\0" in text:
        raise TopicError(
            f"{where}, character {text.index(chr(0)) + 1}: NUL is not allowed; drop it"
        )
    try:
        size = len(text.encode("utf-8"))
    except UnicodeEncodeError as error:
        raise TopicError(
            f"{where}, character {error.start + 1}: half a surrogate pair is no character"
        ) from None
    if size > MAX_TOPIC_BYTES:
        raise TopicError(f"{where}: {size} bytes of UTF-8; at most {MAX_TOPIC_BYTES} are allowed")


def _check_depth(text: str, where: str) -> None:
    levels = text.count("/") + 1
    if levels > MAX_TOPIC_LEVELS:
        raise TopicDepthError(f"{where}: {levels} levels; at most {MAX_TOPIC_LEVELS} are allowed")


def _shortened(text: str, width: int = 60) -> str:
    return repr(text if len(text) <= width else text[: width - 1] + "…")
