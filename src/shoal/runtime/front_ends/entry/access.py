"""Authentication and authorization of clients at a live broker.

A client is authenticated by the name in its certificate, if it has one; else by user name and
password, or by a token or an HTTP service (see `outside`); other clients are anonymous, and
admitted only if the network file says so. Without rules a user may do everything; with rules, the
user may do what the rules for that user and those for all users (`*`) grant, and what the token or
the service grants.

>>> rules = AccessRules((RuleSection(user="*", publish=("home/%u/#",), subscribe=("home/#",)),))
>>> permissions = rules.permissions_of("ann", "c1")
>>> permissions.may_publish("home/ann/lamp"), permissions.may_publish("home/bob/lamp")
(True, False)
>>> permissions.may_subscribe("home/+/lamp"), permissions.may_subscribe("#")
(True, False)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from itertools import chain
from pathlib import Path

from shoal.ledger import Ledger
from shoal.matching.topics.filters import topic_matches
from shoal.mqtt.access import ALL_PERMISSIONS, ClientAdmission, ClientCredentials, Permissions
from shoal.mqtt.codec.reason_codes import ReasonCode
from shoal.runtime.front_ends.entry.known import KnownUsers
from shoal.runtime.front_ends.entry.outside import Outside
from shoal.runtime.front_ends.entry.password_checks import PasswordChecks
from shoal.runtime.front_ends.entry.passwords import PasswordHash, check_password, parse_passwords
from shoal.runtime.front_ends.entry.tokens import lasts_us
from shoal.runtime.front_ends.entry.web import MissingError
from shoal.runtime.network_sections import AccessSection, RuleSection

EVERYBODY = "*"
ALL = "#"
# Characters that mean something in a topic filter; a name with one could widen a rule.
_WILDCARDS = frozenset("+#/")
_BAD_PASSWORD = ClientAdmission(
    ReasonCode.BAD_USER_NAME_OR_PASSWORD, reason="the user name or password is wrong"
)
_BUSY = ClientAdmission(ReasonCode.SERVER_BUSY, reason="too many passwords are being checked")
_NOBODY = ClientAdmission(
    ReasonCode.NOT_AUTHORIZED, reason="this broker needs a user name and password"
)


class AccessError(ValueError):
    """A password file that cannot be read; says which and where."""


class AccessRules:
    """The permissions that a network's rules grant."""

    def __init__(self, rules: tuple[RuleSection, ...]) -> None:
        self._rules = rules
        # Indices of the rules for each user.
        self._places: dict[str, list[int]] = {}
        for place, rule in enumerate(rules):
            self._places.setdefault(rule.user, []).append(place)

    def permissions_of(
        self, user: str, client_id: str, own: RuleSection | None = None
    ) -> Permissions:
        """Return a user's permissions under this client identifier; its `own` rules are in no
        file.
        """
        if not self._rules and own is None:
            return ALL_PERMISSIONS
        places = [self._places.get(each, []) for each in {user, EVERYBODY}]
        mine = [self._rules[place] for place in sorted(chain.from_iterable(places))]
        mine += [] if own is None else [own]
        return _Granted(
            [
                [filled for each in patterns if (filled := _fill(each, user, client_id))]
                for patterns in (
                    [each for rule in mine for each in rule.publish],
                    [each for rule in mine for each in rule.subscribe],
                )
            ]
        )


class _Granted:
    """Topic filters that are granted, to publish and to subscribe."""

    def __init__(self, patterns: list[list[str]]) -> None:
        self._publish, self._subscribe = patterns

    def includes(self, other: Permissions) -> bool:
        """Return whether all that the other grants is granted here; False where that is not sure.

        Each pattern of the other must be covered by one pattern here, not by several together.
        """
        theirs = ([ALL], [ALL]) if other is ALL_PERMISSIONS else _patterns(other)
        return theirs is not None and all(
            any(_covers(granted, pattern) for granted in mine)
            for mine, wanted in zip((self._publish, self._subscribe), theirs, strict=True)
            for pattern in set(wanted).difference(mine)
        )

    @property
    def patterns(self) -> tuple[list[str], list[str]]:
        """Return the topic patterns to publish to, and those to subscribe to."""
        return self._publish, self._subscribe

    def may_publish(self, topic: str) -> bool:
        return any(topic_matches(pattern, topic) for pattern in self._publish)

    def may_subscribe(self, topic_filter: str) -> bool:
        return any(_covers(pattern, topic_filter) for pattern in self._subscribe)


def includes(granted: Permissions, before: Permissions) -> bool:
    """Return whether a client that has these permissions now lost none of those it had before."""
    if granted is ALL_PERMISSIONS:
        return True
    return isinstance(granted, _Granted) and granted.includes(before)


def _patterns(permissions: Permissions) -> tuple[list[str], list[str]] | None:
    return permissions.patterns if isinstance(permissions, _Granted) else None


def _fill(pattern: str, user: str, client_id: str) -> str | None:
    """A rule's pattern for one client; None when its name cannot stand in a pattern."""
    for mark, name in (("%u", user), ("%c", client_id)):
        if mark in pattern:
            if not name or _WILDCARDS & set(name):
                return None
            pattern = pattern.replace(mark, name)
    return pattern


def _covers(granted: str, wanted: str) -> bool:
    """Return whether every topic that matches `wanted` matches `granted`."""
    if wanted[:1] == "$" and granted[:1] in ("+", "#"):
        return False  # wildcards at the beginning do not match $SYS and the like
    mine, theirs = granted.split("/"), wanted.split("/")
    for place, level in enumerate(mine):
        if level == "#":
            return True
        if place >= len(theirs) or theirs[place] == "#":
            return False
        if level not in ("+", theirs[place]):
            return False
    return len(mine) == len(theirs)


class NetworkAccess:
    """Admits clients by a network file; passwords are checked off the loop."""

    def __init__(self, section: AccessSection, former: NetworkAccess | None = None) -> None:
        """`former` is the access before; its unchanged parts go on."""
        self._is_open = section.anonymous
        self._rules = AccessRules(section.rules)
        self.users = read_users(section.passwords, "access.passwords")
        try:
            before: Outside | None = None if former is None else former._outside
            self._outside: Outside = Outside(section, before)
        except (MissingError, OSError, ValueError) as error:
            raise AccessError(f"access: {error}") from None
        self._owed: ClientCredentials | None = None
        self._checks = PasswordChecks(partial(check_password, self.users))

    def register(self, ledger: Ledger) -> None:
        self._checks.register(ledger)

    def admit(self, credentials: ClientCredentials) -> ClientAdmission | None:
        """The answer, or None when a password must be checked first (see `answer`)."""
        if credentials.certificate is not None:
            return self._welcome(credentials.certificate, credentials)
        if not self._is_asked_outside(credentials):
            if credentials.username is None:
                return self._welcome("", credentials) if self._is_open else _NOBODY
            if not self.users and self._is_open:
                return self._welcome("", credentials)  # names mean nothing here
        self._owed = credentials
        return None

    def take_owed(self) -> ClientCredentials | None:
        """Return the client that `admit` has just left without an answer."""
        owed, self._owed = self._owed, None
        return owed

    async def answer(
        self, credentials: ClientCredentials, is_gone: Callable[[], bool]
    ) -> ClientAdmission:
        """Check a password, and answer; `is_gone` says whether the client has hung up."""
        if self._is_asked_outside(credentials):
            found = await self._outside.ask(credentials, is_gone)
            return (
                self._welcome_known(found, credentials) if isinstance(found, KnownUsers) else found
            )
        user, password = credentials.username or "", credentials.password or b""
        right = await self._checks.check(user, password, credentials.address, is_gone)
        if right is None:
            return _BUSY
        return self._welcome(user, credentials) if right else _BAD_PASSWORD

    def renewed(self, after: NetworkAccess, credentials: ClientCredentials) -> Permissions | None:
        """Return the permissions under the new access `after` of a client that this access
        admitted.

        None if it has lost something: its user, its password or a right.
        """
        before, now = self._standing(credentials), after._standing(credentials)
        if before is None or now is None or before[0] != now[0]:
            return None
        return now[1] if includes(now[1], before[1]) else None

    async def close(self, after: NetworkAccess | None = None) -> None:
        """Stop all requests, except those that go on `after` this."""
        await self._outside.close(after._outside if after is not None else None)

    def _is_asked_outside(self, credentials: ClientCredentials) -> bool:
        return self._outside.is_asked(credentials, credentials.username in self.users)

    def _standing(self, credentials: ClientCredentials) -> tuple[object, Permissions] | None:
        """Return a client's password hash, or the source of its identity, and its permissions; None
        if it is not admitted.
        """
        client_id, user = credentials.client_id, credentials.username
        if isinstance(found := credentials.known, KnownUsers):
            is_in = self._outside.knows(found.source)
            rules = self._rules.permissions_of(found.user, client_id, found.rules)
            return (found.source, rules) if is_in else None
        if credentials.certificate is not None:
            return None, self._rules.permissions_of(credentials.certificate, client_id)
        if user is None or (not self.users and self._is_open):
            return (None, self._rules.permissions_of("", client_id)) if self._is_open else None
        known = self.users.get(user)
        return None if known is None else (known, self._rules.permissions_of(user, client_id))

    def _welcome(self, user: str, credentials: ClientCredentials) -> ClientAdmission:
        return ClientAdmission(
            permissions=self._rules.permissions_of(user, credentials.client_id),
            user=user,
            checks_session=self._outside.is_on,
        )

    def _welcome_known(self, known: KnownUsers, credentials: ClientCredentials) -> ClientAdmission:
        client_id = credentials.client_id
        self._outside.remember(client_id, known)
        return ClientAdmission(
            permissions=self._rules.permissions_of(known.user, client_id, known.rules),
            user=known.user,
            lasts_us=lasts_us(known),
            checks_session=True,
            known=known,
        )

    def permissions(self, user: str, client_id: str) -> Permissions:
        """Return the permissions of a user without a connected client."""
        known = self._outside.granted(user, client_id)
        if known is not None:
            return self._rules.permissions_of(user, client_id, known.rules)
        if self._outside.is_on and user and user not in self.users:
            return ALL_PERMISSIONS  # it keeps its grants until its client connects again
        return self._rules.permissions_of(user, client_id)


def read_users(path: str, key: str) -> Mapping[str, PasswordHash]:
    """Those of a password file, none if there is none; AccessError names the `key` and the file."""
    if not path:
        return {}
    try:
        return parse_passwords(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise AccessError(f"{key}: {path}: {error.strerror or error}") from None
    except ValueError as error:
        raise AccessError(f"{key}: {path}: {error}") from None
