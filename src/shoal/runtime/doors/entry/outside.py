"""Users that no password file lists: an HTTP service knows them, or their passwords are tokens.

What either said of a user is remembered for its session, for as many as `MOST_REMEMBERED` clients:
wills and subscriptions are judged by it when rules change.  Of a session whose client is not among
them (the broker was started again) nothing is taken away: its client is asked about when it comes
again, and its subscriptions are checked then.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from shoal.mqtt.access import Admission, Credentials
from shoal.runtime.doors.entry.http_users import HttpUsers
from shoal.runtime.doors.entry.known import Known
from shoal.runtime.doors.entry.tokens import Tokens
from shoal.runtime.network_sections import AccessSection

MOST_REMEMBERED = 100_000


class Outside:
    """Those of one broker; MissingError, OSError or ValueError where a section cannot be used.

    What is the same in `former` goes on: its connections, its answers, and what is remembered.
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
        self._granted: OrderedDict[tuple[str, str], Known] = OrderedDict()
        if former is not None:
            self._granted = former._granted

    def knows(self, source: object) -> bool:
        """Whether what this source said counts."""
        by_http = self._http is not None and source == self._http.section.url
        return by_http or (self._tokens is not None and source == self._tokens.section)

    def is_asked(self, credentials: Credentials, is_listed: bool) -> bool:
        """Whether a client is looked for here, and not in the password file, if that lists it."""
        if self._tokens is not None and Tokens.is_token(credentials.password):
            return True
        return self._http is not None and credentials.username is not None and not is_listed

    async def ask(self, credentials: Credentials, is_gone: Callable[[], bool]) -> Known | Admission:
        """Who a client is, or why it is not let in; `is_gone` says whether it has hung up."""
        password = credentials.password
        if self._tokens is not None and password is not None and Tokens.is_token(password):
            return await self._tokens.check(password)
        assert self._http is not None
        return await self._http.ask(credentials, is_gone)

    def remember(self, client_id: str, known: Known) -> None:
        """A client is let in."""
        granted, key = self._granted, (known.user, client_id)
        granted[key] = known
        granted.move_to_end(key)
        if len(granted) > MOST_REMEMBERED:
            granted.popitem(last=False)

    def granted(self, user: str, client_id: str) -> Known | None:
        """What was said of a client that was let in."""
        return self._granted.get((user, client_id))

    async def close(self, after: Outside | None = None) -> None:
        """Ask nobody any more, but for those that go on `after` this."""
        if self._http is not None and (after is None or after._http is not self._http):
            await self._http.close()
        if self._tokens is not None:
            await self._tokens.close()
