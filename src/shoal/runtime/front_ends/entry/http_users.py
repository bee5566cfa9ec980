"""Users that an HTTP service knows: asked about each client once, bounded, and closed on failure.

The service gets, by POST, `{"username", "password", "client_id", "clientid", "address"}` and
answers

| answer | the client |
| --- | --- |
| 200, `{"result": "allow"}` or `{"ok": true}`; or 204 | is admitted, as `user` if given |
| ... with `publish` or `subscribe`, lists of topic filters | may use these, and those of rules |
| 200, `{"result": "deny"}`, `{"result": "ignore"}` or `{"ok": false}`; 401, 403 or 404 | 0x86 |
| anything else; none within `timeout_s` | 0x88; the log says why |
| ... as too many wait, of one address or of all | 0x89 |

Answers are kept for `cache_s`, the last `MOST_KEPT` of them, under a keyed hash of the request: no
password is kept. EMQX and mosquitto-go-auth send the client identifier under the second name; their
services' answers are understood, too.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import secrets
from collections import Counter, OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from shoal.mqtt.access import ClientAdmission, ClientCredentials
from shoal.mqtt.codec.reason_codes import ReasonCode
from shoal.runtime.front_ends.entry.known import KnownUsers, known_user
from shoal.runtime.front_ends.entry.password_checks import source_of
from shoal.runtime.front_ends.entry.web import Web
from shoal.runtime.network_sections import HttpUsersSection

# Requests that are under way at once, each a millisecond of the broker's, and clients that wait.
MOST_UNDER_WAY = 16
MOST_WAITING, MOST_WAITING_PER_ADDRESS = 2_048, 64
# Answers that are kept.
MOST_KEPT = 10_000
# A refused client waits this long for its answer, which bounds the rate of guesses.
REFUSED_PAUSE_S = 0.5
# Interval of log lines about a failure that goes on.
SAID_S = 10.0

REFUSED = ClientAdmission(
    ReasonCode.BAD_USER_NAME_OR_PASSWORD, reason="the service for users refused"
)
UNAVAILABLE = ClientAdmission(
    ReasonCode.SERVER_UNAVAILABLE, reason="the service for users does not answer"
)
_BUSY = ClientAdmission(ReasonCode.SERVER_BUSY, reason="too many clients wait for admission")
_DENIALS = (401, 403, 404)

_log = logging.getLogger(__name__)


class HttpUsers:
    """One broker's; MissingError, OSError or ValueError where the section cannot be used."""

    def __init__(self, section: HttpUsersSection) -> None:
        self.section = section
        bearer = Path(section.bearer_file).read_text("ascii").strip() if section.bearer_file else ""
        self._web = Web("access.http", section.authority, section.timeout_s, MOST_UNDER_WAY, bearer)
        self._turns = asyncio.Semaphore(MOST_UNDER_WAY)
        self._waiting: Counter[str] = Counter()
        self._kept: OrderedDict[bytes, tuple[float, KnownUsers | None]] = OrderedDict()
        self._secret = secrets.token_bytes(32)
        self._is_failing = False
        self._said_s = float("-inf")

    async def ask(
        self, credentials: ClientCredentials, is_gone: Callable[[], bool]
    ) -> KnownUsers | ClientAdmission:
        """Return the user of a client, or the reason of its refusal; `is_gone` returns whether the
        client has hung up.
        """
        source = source_of(credentials.address)
        said = _said(credentials, source)
        if said is None:
            return REFUSED
        key = self._key(said)
        loop = asyncio.get_running_loop()
        kept = self._kept.get(key)
        if kept is not None and loop.time() < kept[0]:
            self._kept.move_to_end(key)
            found = kept[1]
        else:
            is_full = self._waiting.total() >= MOST_WAITING
            if is_full or self._waiting[source] >= MOST_WAITING_PER_ADDRESS:
                return _BUSY
            self._waiting[source] += 1
            try:
                found = await self._ask_service(said, is_gone)
            except (OSError, ValueError) as error:
                self._fails(error)
                return UNAVAILABLE
            finally:
                self._leave_queue(source)
            self._cache_users(key, found, loop.time())
        if found is not None:
            return found
        await asyncio.sleep(REFUSED_PAUSE_S)
        return REFUSED

    async def close(self) -> None:
        await self._web.close()

    async def _ask_service(
        self, said: dict[str, Any], is_gone: Callable[[], bool]
    ) -> KnownUsers | None:
        """Ask in turn; OSError, TimeoutError too, or ValueError where that is no answer."""
        timeout_s = self.section.timeout_s
        try:
            async with asyncio.timeout(timeout_s), self._turns:
                if is_gone():
                    raise ConnectionAbortedError("the client has hung up")
                code, body = await self._web.exchange("POST", self.section.url, said)
        except TimeoutError:
            raise TimeoutError(f"no answer within {timeout_s:g} s") from None
        found = _read(code, body, said["username"], self.section.url)
        if self._is_failing:
            self._is_failing = False
            _log.info("the service that knows users answers again")
        return found

    def _leave_queue(self, source: str) -> None:
        self._waiting[source] -= 1
        if not self._waiting[source]:
            del self._waiting[source]

    def _key(self, said: dict[str, Any]) -> bytes:
        text = json.dumps(list(said.values())).encode()
        return hashlib.blake2b(text, key=self._secret, digest_size=32).digest()

    def _cache_users(self, key: bytes, found: KnownUsers | None, now_s: float) -> None:
        if self.section.cache_s:
            self._kept[key] = (now_s + self.section.cache_s, found)
            self._kept.move_to_end(key)
            if len(self._kept) > MOST_KEPT:
                self._kept.popitem(last=False)

    def _fails(self, error: Exception) -> None:
        """Log at intervals that clients are refused because the service fails."""
        if isinstance(error, ConnectionAbortedError):
            return
        now_s = asyncio.get_running_loop().time()
        self._is_failing = True
        if now_s - self._said_s >= SAID_S:
            self._said_s = now_s
            _log.warning("the service that knows users fails", extra={"problem": str(error)})


def _said(credentials: ClientCredentials, source: str) -> dict[str, Any] | None:
    """Return the request to the service; None if the password is not text."""
    try:
        password = (credentials.password or b"").decode()
    except UnicodeDecodeError:
        return None
    client_id = credentials.client_id
    return {
        "username": credentials.username or "",
        "password": password,
        "client_id": client_id,
        "clientid": client_id,
        "address": source,
    }


def _read(code: int, body: bytes, user: str, source: str) -> KnownUsers | None:
    """Return the user, None if the service refuses it; ValueError if the answer says neither."""
    if code in _DENIALS:
        return None
    if code == 204:
        return known_user(user, None, None, source)
    if code != 200:
        raise ValueError(f"HTTP {code}")
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        raise ValueError("the answer is no JSON") from None
    if not isinstance(answer, dict):
        raise ValueError("the answer is no JSON object")
    result = answer.get("result", answer.get("ok"))
    if result in ("deny", "ignore", False):
        return None
    if result not in ("allow", True):
        raise ValueError('the answer has no "result" that is allow or deny')
    said = answer.get("user") or user
    return known_user(said, answer.get("publish"), answer.get("subscribe"), source)
