"""Users known from outside the password file: the same for services and tokens."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from shoal.runtime.network_sections import RuleSection

# Topic filters of one answer or token.
MOST_PATTERNS = 1_000


class KnownUsers(msgspec.Struct, frozen=True):
    """A user, and its grants besides the rules of the network file.

    `source` is where that is known from: the service's address, or the tokens' section.  With
    `ends_s`, in seconds since 1970, the client is let in until then.
    """

    user: str
    rules: RuleSection | None
    source: object
    ends_s: float | None = None


def known_user(
    user: object, publish: object, subscribe: object, source: object, ends_s: float | None = None
) -> KnownUsers:
    """Return the user that an answer or a token names; ValueError if it holds no user, or no topic
    filters.

    >>> known_user("ann", ["a/#"], None, "here").rules.publish
    ('a/#',)
    >>> known_user("*", None, None, "here")
    Traceback (most recent call last):
    ValueError: '*' is no name of a user
    """
    if not isinstance(user, str) or user in ("", "*"):
        raise ValueError(f"{user!r} is no name of a user")
    if publish is None and subscribe is None:
        return KnownUsers(user, None, source, ends_s)
    rules = RuleSection(
        user=user,
        publish=_patterns("publish", publish),
        subscribe=_patterns("subscribe", subscribe),
    )
    return KnownUsers(user, rules, source, ends_s)


def _patterns(key: str, found: object) -> tuple[str, ...]:
    if found is None:
        return ()
    is_list = isinstance(found, Sequence) and not isinstance(found, str | bytes)
    if not is_list or not all(isinstance(each, str) for each in found):  # type: ignore[attr-defined]
        raise ValueError(f"{key} is no list of topic filters")
    patterns: tuple[str, ...] = tuple(found)  # type: ignore[arg-type]
    if len(patterns) > MOST_PATTERNS:
        raise ValueError(f"{key} has more than {MOST_PATTERNS} topic filters")
    return patterns
