"""Describes the changes that a reload of the network file makes.

>>> from shoal.runtime.network_sections import RuleSection
>>> before = (RuleSection(user="ann", publish=("a/#",)),)
>>> after = (RuleSection(user="ann", publish=("b/#",), subscribe=("c",)),)
>>> changed_rules(before, after)
['rules of ann: no more publish a/#; publish b/#; subscribe c']
>>> changed_names("user", {"ann": 1, "bob": 1}, {"ann": 2, "dan": 1})
['user bob removed', 'user dan added', 'password of user ann changed']
>>> changed_files({"authority of links in ca.pem": "5f"}, {"authority of links in ca.pem": "a0"})
['another authority of links in ca.pem']
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from shoal.runtime.network_file import NetworkFile
from shoal.runtime.network_sections import NetworkSection, RuleSection

# One line of the log names so many changes, and counts the rest.
MOST_NAMED = 20


class People(NamedTuple):
    """The users and the operators of password files, each with its password hash."""

    users: Mapping[str, object]
    operators: Mapping[str, object]


def changes(
    before: NetworkFile, after: NetworkFile, people: People, people_after: People
) -> list[str]:
    """Return the differences between two networks, the second of which is in force."""
    access, admin = after.access, after.admin
    return [
        *changed_names("user", people.users, people_after.users),
        *changed_rules(before.access.rules, access.rules),
        *_changed_keys("access", before.access, access, leaving_out=("rules",)),
        *changed_names("operator", people.operators, people_after.operators),
        *_changed_keys("admin", before.admin, admin),
        *_changed_keys("limits", before.limits, after.limits),
        *_changed_keys("tls", before.tls, after.tls),
        *_changed_keys("client_tls", before.client_tls, after.client_tls),
    ]


def changed_files(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """Return the files of certificates whose content differs, from their digests."""
    return [f"another {name}" for name in after if name in before and before[name] != after[name]]


def bounded(texts: list[str]) -> list[str]:
    """So many of them, and how many more there are."""
    rest = len(texts) - MOST_NAMED
    return texts if rest <= 0 else [*texts[:MOST_NAMED], f"{rest:,} more"]


def changed_names(
    what: str, before: Mapping[str, object], after: Mapping[str, object]
) -> list[str]:
    """Return the users that were added, removed, or got another password."""
    removed = [f"{what} {name} removed" for name in before if name not in after]
    added = [f"{what} {name} added" for name in after if name not in before]
    changed = [name for name in after if name in before and before[name] != after[name]]
    return removed + added + [f"password of {what} {name} changed" for name in changed]


def changed_rules(before: Iterable[RuleSection], after: Iterable[RuleSection]) -> list[str]:
    """Return the grants per user that the rules lost and gained."""
    old, new = _granted(before), _granted(after)
    found = []
    for user in dict.fromkeys((*old, *new)):
        lost, won = old.get(user, {}), new.get(user, {})
        words = [f"no more {each}" for each in lost if each not in won]
        words += [each for each in won if each not in lost]
        if words:
            found.append(
                f"rules of {user or 'clients without a name'}: {'; '.join(bounded(words))}"
            )
    if bool(old) != bool(new):
        found.insert(0, "rules added where there were none" if new else "no rules any more")
    return found


def _granted(rules: Iterable[RuleSection]) -> dict[str, dict[str, None]]:
    """Return each user's grants as text, each once."""
    found: dict[str, dict[str, None]] = {}
    for rule in rules:
        words = found.setdefault(rule.user, {})
        for verb in ("publish", "subscribe"):
            words.update(dict.fromkeys(f"{verb} {each}" for each in getattr(rule, verb)))
    return found


def _changed_keys(
    table: str,
    before: msgspec.Struct | NetworkSection | None,
    after: msgspec.Struct | NetworkSection | None,
    leaving_out: Iterable[str] = (),
) -> list[str]:
    """Return the keys of a table that differ, with old and new values."""
    if before is None or after is None:
        return []
    return [
        f"{table}.{key}: {_short(getattr(before, key))} is now {_short(getattr(after, key))}"
        for key in after.__struct_fields__
        if key not in leaving_out and getattr(before, key) != getattr(after, key)
    ]


def _short(value: object) -> str:
    text = repr(list(value) if isinstance(value, tuple) else value)
    return text if len(text) <= 100 else f"{text[:100]}..."
