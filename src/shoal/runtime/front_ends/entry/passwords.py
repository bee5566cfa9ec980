"""Password files: a user and a salted scrypt hash per line, `user:scrypt:n:r:p:salt:hash`.

A guess costs 16 MB and tens of milliseconds with scrypt (RFC 7914); a check costs the same, so it
runs off the loop, and for unknown users too, so that its duration does not reveal them.

>>> line = password_line("ann", "secret")
>>> check_password(parse_passwords(line), "ann", b"secret"), line.split(":")[:2]
(True, ['ann', 'scrypt'])
>>> parse_passwords("ann:secret")
Traceback (most recent call last):
ValueError: line 1: is not user:scrypt:n:r:p:salt:hash; write it by: shoal password
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from collections.abc import Mapping
from typing import NamedTuple

_COST, _BLOCK, _PARALLEL = 2**14, 8, 1
_SALT_BYTES, _HASH_BYTES = 16, 32
# More would let a line of the file ask for any amount of memory.
_MAX_COST = 2**17
_MAX_BLOCK = 32
_LINE = re.compile(r"([^:\s]+):scrypt:(\d+):(\d+):(\d+):([\w+/=]+):([\w+/=]+)", re.ASCII)


class PasswordHash(NamedTuple):
    """Parameters and result of one password hash."""

    cost: int
    block: int
    parallel: int
    salt: bytes
    hash: bytes

    def matches(self, password: bytes) -> bool:
        found = _scrypt(password, self.salt, self.cost, self.block, self.parallel)
        return hmac.compare_digest(found, self.hash)


# Unknown users' passwords are compared with this.
_NOBODY = PasswordHash(_COST, _BLOCK, _PARALLEL, bytes(_SALT_BYTES), bytes(_HASH_BYTES))


def password_line(user: str, password: str) -> str:
    """The line of a password file; ValueError for a name that cannot be in one."""
    if not user or re.search(r"[:\s]", user):
        raise ValueError(f"user name {user!r}: must not be empty or have colons or spaces")
    salt = secrets.token_bytes(_SALT_BYTES)
    hashed = _scrypt(password.encode(), salt, _COST, _BLOCK, _PARALLEL)
    texts = (base64.b64encode(part).decode() for part in (salt, hashed))
    return ":".join((user, "scrypt", str(_COST), str(_BLOCK), str(_PARALLEL), *texts))


def parse_passwords(text: str) -> dict[str, PasswordHash]:
    """The users of a password file; ValueError names the line that is none."""
    users = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        found = _LINE.fullmatch(line.strip())
        problem = "is not user:scrypt:n:r:p:salt:hash; write it by: shoal password"
        if found is None:
            raise ValueError(f"line {number}: {problem}")
        cost, block, parallel = (int(found[place]) for place in (2, 3, 4))
        if cost > _MAX_COST or block > _MAX_BLOCK or parallel > 1 or cost.bit_count() != 1:
            raise ValueError(f"line {number}: asks for more than n = {_MAX_COST}, r = {_MAX_BLOCK}")
        try:
            salt, hashed = (base64.b64decode(found[place], validate=True) for place in (5, 6))
        except binascii.Error:
            raise ValueError(f"line {number}: {problem}") from None
        users[found[1]] = PasswordHash(cost, block, parallel, salt, hashed)
    return users


def check_password(users: Mapping[str, PasswordHash], user: str, password: bytes) -> bool:
    """Return whether this is the user's password; as slow for users that are not there."""
    known = users.get(user)
    return (known or _NOBODY).matches(password) and known is not None


def _scrypt(password: bytes, salt: bytes, cost: int, block: int, parallel: int) -> bytes:
    memory = 128 * cost * block * 2
    return hashlib.scrypt(
        password, salt=salt, n=cost, r=block, p=parallel, maxmem=memory, dklen=_HASH_BYTES
    )
