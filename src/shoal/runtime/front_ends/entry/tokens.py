"""Users with signed tokens (JWT) as passwords, with signer, audience and expiry.

A token must be signed by the key of the network file, have an `exp` that has not passed, and the
audience and issuer that the file asks for. Public keys from an address (JWKS) are fetched when the
first token comes, then every `FRESH_S`; a token with an unknown key causes another fetch, at most
once in `AGAIN_S`. The keys of the last fetch count while the address does not answer.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from pathlib import Path
from typing import Any

from shoal.mqtt.access import ClientAdmission
from shoal.mqtt.codec.reason_codes import ReasonCode
from shoal.runtime.front_ends.entry.http_users import UNAVAILABLE
from shoal.runtime.front_ends.entry.known import KnownUsers, known_user
from shoal.runtime.front_ends.entry.web import Web, needed
from shoal.runtime.network_sections import TokensSection

MOST_BYTES = 16_384
# Clocks of signer and broker may differ by so much.
LEEWAY_S = 5
FRESH_S, AGAIN_S, TIMEOUT_S = 300.0, 10.0, 5.0

_SECRET = ("HS256", "HS384", "HS512")
_PUBLIC = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")

# Errors of a document that holds no keys.
_NO_KEYS = (ValueError, TypeError, AttributeError, RecursionError)

_log = logging.getLogger(__name__)


class Tokens:
    """Checks tokens; MissingError, OSError or ValueError where the section cannot be used."""

    def __init__(self, section: TokensSection) -> None:
        self.section = section
        self._jwt: Any = needed("jwt", "access.jwt")
        self._algorithms = _SECRET if section.secret_file else _PUBLIC
        self._key: Any = _read_key(section)
        self._keys = None if self._key is not None else _Keys(section, self._jwt)

    @staticmethod
    def is_token(password: bytes | None) -> bool:
        """Return whether a password looks like a token; it is no JWS without these three parts."""
        return password is not None and password.startswith(b"eyJ") and password.count(b".") == 2

    async def check(self, password: bytes) -> KnownUsers | ClientAdmission:
        """Return the user of this token, or the reason of its refusal."""
        if len(password) > MOST_BYTES:
            return _refused(f"it has more than {MOST_BYTES} bytes")
        try:
            key = self._key
            if self._keys is not None:
                header = self._jwt.get_unverified_header(password)
                key = await self._keys.get(header.get("kid"))
            claims = self._decode(password, key)
            return self._known(claims)
        except OSError as error:
            _log.warning("no keys of tokens", extra={"problem": str(error)})
            return UNAVAILABLE
        except (self._jwt.PyJWTError, ValueError, TypeError, OverflowError) as error:
            return _refused(str(error))

    async def close(self) -> None:
        if self._keys is not None:
            await self._keys.close()

    def _decode(self, password: bytes, key: object) -> dict[str, Any]:
        section = self.section
        claims: dict[str, Any] = self._jwt.decode(
            password,
            key,
            algorithms=self._algorithms,
            audience=section.audience or None,
            issuer=section.issuer or None,
            leeway=LEEWAY_S,
            options={"require": ["exp"], "verify_aud": bool(section.audience)},
        )
        return claims

    def _known(self, claims: dict[str, Any]) -> KnownUsers:
        section = self.section
        ends_s = int(claims["exp"]) + LEEWAY_S if section.ends_connections else None
        user, publish, subscribe = (
            claims.get(key) for key in (section.user, section.publish, section.subscribe)
        )
        return known_user(user, publish, subscribe, self.section, ends_s)


class _Keys:
    """The public keys at an address."""

    def __init__(self, section: TokensSection, jwt: Any) -> None:
        self._url = section.jwks_url
        self._web = Web("access.jwt", section.authority, TIMEOUT_S, 1)
        self._jwt = jwt
        self._by_name: dict[str | None, Any] = {}
        self._lock = asyncio.Lock()
        self._read_s = self._tried_s = float("-inf")
        self._problem = ""

    async def get(self, name: str | None) -> Any:
        """The key of that name, or the only one; OSError where none could be read yet."""
        async with self._lock:
            now_s = time.monotonic()
            is_old = now_s - self._read_s > FRESH_S or self._find(name) is None
            if is_old and now_s - self._tried_s > AGAIN_S:
                self._tried_s = now_s
                await self._read_keys(now_s)
        if not self._by_name:
            raise OSError(self._problem)
        found = self._find(name)
        if found is None:
            raise ValueError("its key is unknown")
        return found

    async def close(self) -> None:
        await self._web.close()

    def _find(self, name: str | None) -> Any:
        if name is None and len(self._by_name) == 1:
            (name,) = self._by_name
        return self._by_name.get(name)

    async def _read_keys(self, now_s: float) -> None:
        try:
            async with asyncio.timeout(TIMEOUT_S):
                code, body = await self._web.exchange("GET", self._url)
            if code != 200:
                raise ValueError(f"HTTP {code}")
            keys = self._jwt.PyJWKSet.from_dict(json.loads(body)).keys
        except (OSError, *_NO_KEYS, self._jwt.PyJWTError) as error:
            self._problem = f"{self._url}: {error or 'no answer'}"
            _log.warning("keys of tokens cannot be read", extra={"problem": self._problem})
            return
        self._by_name = {each.key_id: each for each in keys}
        self._read_s = now_s


def _read_key(section: TokensSection) -> object:
    """The key that the network file names; None where an address has it."""
    if section.secret_file:
        secret = Path(section.secret_file).read_bytes().rstrip(b"\r\n")
        if len(secret) < 32:
            raise ValueError(f"{section.secret_file}: has fewer than 32 bytes")
        return secret
    if section.key_file:
        from cryptography.hazmat.primitives.serialization import load_pem_public_key

        try:
            return load_pem_public_key(Path(section.key_file).read_bytes())
        except ValueError:
            raise ValueError(f"{section.key_file}: is no public key as PEM") from None
    return None


def _refused(why: str) -> ClientAdmission:
    reason = f"the token is not good here: {why}"
    return ClientAdmission(ReasonCode.BAD_USER_NAME_OR_PASSWORD, reason=reason)


def lasts_us(known: KnownUsers) -> int | None:
    """For how long a client may stay connected from now on; None without an end."""
    if known.ends_s is None:
        return None
    return max(0, round((known.ends_s - time.time()) * 1_000_000))
