"""Users that no password file lists: an HTTP service knows them, or their passwords are tokens.

Their grants are remembered for the session, for up to `MOST_REMEMBERED` clients: wills and
subscriptions are checked against them when rules change. A session with a client that is not among
them (after a restart of the broker) keeps its rights: its client is authenticated when it connects
again, and its subscriptions are checked then.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from shoal.mqtt.access import ClientAdmission, ClientCredentials
from shoal.runtime.front_ends.entry.http_users import HttpUsers
from shoal.runtime.front_ends.entry.known import KnownUsers
from shoal.runtime.front_ends.entry.tokens import Tokens
from shoal.runtime.network_sections import AccessSection

MOST_REMEMBERED = 100_000


class Outside:
    """The outside sources of one broker; MissingError, OSError or ValueError if a section cannot be
    used.

    Sources that are unchanged since `former` go on: connections, answers, and remembered grants.
    """

    def __init__(self, section: AccessSection, former: Outside | None = None) -> None:
        self.is_on = section.knows_others
        self._http: HttpUsers | None = None
        self._tokens: Tokens | None = None
        if section.http.url:
            old = former._http if former is not None else None
            is_same = old is not None and old.section == section.http
            self._http = old if is_same else HttpUsers(section.http)
        if section.jwt.is_on:  # anew each time: keys are in files
            self._tokens = Tokens(section.jwt)
        self._granted: OrderedDict[tuple[str, str], KnownUsers] = OrderedDict()
        if former is not None:
            self._granted = former._granted

    def knows(self, source: object) -> bool:
        """Return whether answers of this source count."""
        by_http = self._http is not None and source == self._http.section.url
        return by_http or (self._tokens is not None and source == self._tokens.section)

    def is_asked(self, credentials: ClientCredentials, is_listed: bool) -> bool:
        """Return whether a client is looked for here, and not in the password file, if that lists
        it.
        """
        if self._tokens is not None and Tokens.is_token(credentials.password):
            return True
        return self._http is not None and credentials.username is not None and not is_listed

    async def ask(
        self, credentials: ClientCredentials, is_gone: Callable[[], bool]
    ) -> KnownUsers | ClientAdmission:
        """Return the user of a client, or the reason of its refusal; `is_gone` returns whether the
        client has hung up.
        """
        password = credentials.password
        if self._tokens is not None and password is not None and Tokens.is_token(password):
            return await self._tokens.check(password)
        assert self._http is not None
        return await self._http.ask(credentials, is_gone)

    def remember(self, client_id: str, known: KnownUsers) -> None:
        """A client is let in."""
        granted, key = self._granted, (known.user, client_id)
        granted[key] = known
        granted.move_to_end(key)
        if len(granted) > MOST_REMEMBERED:
            granted.popitem(last=False)

    def granted(self, user: str, client_id: str) -> KnownUsers | None:
        """Return the grants of an admitted client."""
        return self._granted.get((user, client_id))

    async def close(self, after: Outside | None = None) -> None:
        """Stop all requests, except those that go on `after` this."""
        if self._http is not None and (after is None or after._http is not self._http):
            await self._http.close()
        if self._tokens is not None:
            await self._tokens.close()
