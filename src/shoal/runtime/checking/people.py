"""Users and operators: those that rules and orders name must be known somewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator

from shoal.runtime.checking.findings import Finding
from shoal.runtime.doors.entry.access import EVERYBODY, AccessError, read_users
from shoal.runtime.network_file import Network


def people(network: Network) -> Iterator[Finding]:
    """What is wrong with users, operators and rules."""
    yield from _users(network)
    yield from _operators(network)
    yield from _origins(network)


def _users(network: Network) -> Iterator[Finding]:
    access, path = network.access, network.access.passwords
    try:
        users = read_users(path, "access.passwords")
    except AccessError as error:
        if _is_there(str(error)):
            yield Finding(f"access.passwords: {path}", _behind(str(error), path))
        return
    if path and not users:
        yield Finding(f"access.passwords: {path}", "has no user; write one by: shoal password")
    # Certificates name users that no file lists.
    is_certified = network.client_tls is not None and bool(network.client_tls.authority)
    for place, rule in enumerate(access.rules):
        where = f"access.rules[{place}].user"
        if rule.user == "" and not access.anonymous:
            yield Finding(
                where, "is for clients without a name, which access.anonymous does not let in", True
            )
        elif rule.user not in ("", EVERYBODY) and rule.user not in users:
            listed = f"{path} lists no such user" if path else "there is no access.passwords"
            if is_certified:
                why = f"{listed}; it must be the name in a certificate"
                yield Finding(where, f"{rule.user!r}: {why}", True)
            else:
                yield Finding(where, f"{rule.user!r} is unknown: {listed}")
        for key in ("publish", "subscribe"):
            for pattern in getattr(rule, key):
                if pattern.startswith("$share/"):
                    why = "rules are about the topics behind $share/GROUP/; leave that out"
                    yield Finding(f"access.rules[{place}].{key}", f"{pattern!r}: {why}")


def _operators(network: Network) -> Iterator[Finding]:
    admin, path = network.admin, network.admin.passwords
    try:
        operators = read_users(path, "admin.passwords")
    except AccessError as error:
        if _is_there(str(error)):
            yield Finding(f"admin.passwords: {path}", _behind(str(error), path))
        return
    if path and not operators:
        yield Finding(f"admin.passwords: {path}", "has no operator; write one by: shoal password")
    for place, name in enumerate(admin.orders if admin.knows_operators else ()):
        if name not in operators:
            where = f"admin.orders[{place}]"
            if admin.operator_authority:
                why = f"no file lists {name!r}; it must be the name in a certificate"
                yield Finding(where, why, True)
            else:
                yield Finding(where, f"{name!r} is unknown: {path} lists no such operator")


def _origins(network: Network) -> Iterator[Finding]:
    for place, origin in enumerate(network.access.origins):
        if origin != "*" and not re.fullmatch(r"[a-z][a-z0-9+.-]*://[^/\s]+", origin):
            why = "is no origin, such as https://app.example.org, without a path"
            yield Finding(f"access.origins[{place}]", f"{origin!r} {why}")


def _is_there(problem: str) -> bool:
    """Whether a file is there: the network file's own checks say which are not."""
    return "No such file" not in problem


def _behind(problem: str, path: str) -> str:
    return problem.partition(f"{path}: ")[2] or problem
