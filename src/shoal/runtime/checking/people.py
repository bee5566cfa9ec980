"""Users and operators: those that rules and orders name must be known somewhere."""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Iterator

from shoal.runtime.addresses import Address
from shoal.runtime.checking.findings import CheckFinding
from shoal.runtime.front_ends.entry.access import EVERYBODY, AccessError, read_users
from shoal.runtime.front_ends.entry.outside import Outside
from shoal.runtime.front_ends.entry.web import MissingError
from shoal.runtime.network_file import NetworkFile
from shoal.runtime.network_sections import TokensSection


def people(network: NetworkFile) -> Iterator[CheckFinding]:
    """Find problems with users, operators and rules."""
    yield from _users(network)
    yield from _outside(network)
    yield from _operators(network)
    yield from _origins(network)


def _users(network: NetworkFile) -> Iterator[CheckFinding]:
    access, path = network.access, network.access.passwords
    try:
        users = read_users(path, "access.passwords")
    except AccessError as error:
        if _is_there(str(error)):
            yield CheckFinding(f"access.passwords: {path}", _behind(str(error), path))
        return
    if path and not users:
        yield CheckFinding(f"access.passwords: {path}", "has no user; write one by: shoal password")
    # Certificates name users that no file lists.
    is_certified = network.client_tls is not None and bool(network.client_tls.authority)
    for place, rule in enumerate(access.rules):
        where = f"access.rules[{place}].user"
        if rule.user == "" and not access.anonymous:
            yield CheckFinding(
                where, "is for clients without a name, which access.anonymous does not admit", True
            )
        elif rule.user not in ("", EVERYBODY) and rule.user not in users:
            listed = f"{path} lists no such user" if path else "there is no access.passwords"
            if access.knows_others:
                continue  # and this machine cannot see whether the others know it
            if is_certified:
                why = f"{listed}; it must be the name in a certificate"
                yield CheckFinding(where, f"{rule.user!r}: {why}", True)
            else:
                yield CheckFinding(where, f"{rule.user!r} is unknown: {listed}")
        for key in ("publish", "subscribe"):
            for pattern in getattr(rule, key):
                if pattern.startswith("$share/"):
                    why = "rules are about the topics behind $share/GROUP/; leave that out"
                    yield CheckFinding(f"access.rules[{place}].{key}", f"{pattern!r}: {why}")


def _outside(network: NetworkFile) -> Iterator[CheckFinding]:
    """Find problems with an HTTP service for users, and with keys of tokens."""
    access = network.access
    for where, url in (("http.url", access.http.url), ("jwt.jwks_url", access.jwt.jwks_url)):
        parts = urllib.parse.urlsplit(url)
        if parts.scheme == "http" and not Address(parts.hostname or "", 1).is_loopback:
            why = "goes without TLS; an attacker on the way can take any user's name"
            yield CheckFinding(f"access.{where}", f"{url} {why}", True)
    given = access.jwt
    if not given.is_on and given != TokensSection():
        why = "give key_file, secret_file or jwks_url; without, no token is taken"
        yield CheckFinding("access.jwt", why)
    try:
        Outside(access)
    except MissingError as error:
        place, _, why = str(error).partition(": ")
        yield CheckFinding(place, why)
    except ValueError as error:
        yield CheckFinding("access.jwt" if given.is_on else "access.http", str(error))
    except OSError as error:
        if _is_there(str(error)):
            yield CheckFinding("access", str(error))


def _operators(network: NetworkFile) -> Iterator[CheckFinding]:
    admin, path = network.admin, network.admin.passwords
    try:
        operators = read_users(path, "admin.passwords")
    except AccessError as error:
        if _is_there(str(error)):
            yield CheckFinding(f"admin.passwords: {path}", _behind(str(error), path))
        return
    if path and not operators:
        yield CheckFinding(
            f"admin.passwords: {path}", "has no operator; write one by: shoal password"
        )
    for place, name in enumerate(admin.orders if admin.knows_operators else ()):
        if name not in operators:
            where = f"admin.orders[{place}]"
            if admin.operator_authority:
                why = f"no file lists {name!r}; it must be the name in a certificate"
                yield CheckFinding(where, why, True)
            else:
                yield CheckFinding(where, f"{name!r} is unknown: {path} lists no such operator")


def _origins(network: NetworkFile) -> Iterator[CheckFinding]:
    for place, origin in enumerate(network.access.origins):
        if origin != "*" and not re.fullmatch(r"[a-z][a-z0-9+.-]*://[^/\s]+", origin):
            why = "is no origin, such as https://app.example.org, without a path"
            yield CheckFinding(f"access.origins[{place}]", f"{origin!r} {why}")


def _is_there(problem: str) -> bool:
    """Return whether a file is there: the network file's own checks say which are not."""
    return "No such file" not in problem


def _behind(problem: str, path: str) -> str:
    return problem.partition(f"{path}: ")[2] or problem
