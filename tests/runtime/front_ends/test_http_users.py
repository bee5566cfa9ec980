"""Users of an HTTP service: admission, refusal, caching; without the service no one is admitted."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from shoal.mqtt.access import ALL_PERMISSIONS, ClientAdmission, ClientCredentials
from shoal.mqtt.codec.reason_codes import ReasonCode
from shoal.runtime.front_ends.entry import http_users
from shoal.runtime.front_ends.entry.access import AccessError, NetworkAccess
from shoal.runtime.front_ends.entry.passwords import password_line
from shoal.runtime.network_sections import (
    AccessSection,
    HttpUsersSection,
    RuleSection,
    TokensSection,
)
from tests.examples import at_length
from tests.runtime.front_ends.user_service import Answer, Service, answering, serving
from tests.runtime.live import PATIENCE_S, on_loop

ALLOW = answering(result="allow")
NOTHING_ELSE = AccessSection()
GOOD, BAD = ReasonCode.SUCCESS, ReasonCode.BAD_USER_NAME_OR_PASSWORD
UNAVAILABLE, BUSY = ReasonCode.SERVER_UNAVAILABLE, ReasonCode.SERVER_BUSY


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_users, "REFUSED_PAUSE_S", 0.0)


def ann(**said: Any) -> ClientCredentials:
    fields = {"client_id": "c", "username": "ann", "password": b"secret"}
    return ClientCredentials(**{**fields, "address": "192.0.2.7:40123", **said})  # type: ignore[arg-type]


async def answer(access: NetworkAccess, credentials: ClientCredentials) -> ClientAdmission:
    admission = access.admit(credentials)
    if admission is not None:
        return admission
    assert access.take_owed() == credentials
    return await access.answer(credentials, lambda: False)


@asynccontextmanager
async def asking(
    say: Answer, section: AccessSection = NOTHING_ELSE, **keys: Any
) -> AsyncIterator[tuple[NetworkAccess, Service]]:
    async with serving(say) as service:
        http = HttpUsersSection(url=service.url, **keys)
        access = NetworkAccess(
            AccessSection(
                passwords=section.passwords,
                anonymous=section.anonymous,
                rules=section.rules,
                http=http,
            )
        )
        try:
            yield access, service
        finally:
            await access.close()


@on_loop
async def test_the_service_gets_the_user_and_decides() -> None:
    async with asking(ALLOW) as (access, service):
        admission = await answer(access, ann())
        assert (admission.reason_code, admission.user) == (GOOD, "ann")
        assert admission.permissions is ALL_PERMISSIONS
        (said,) = service.asked
        assert said == {
            "username": "ann",
            "password": "secret",
            "client_id": "c",
            "clientid": "c",
            "address": "192.0.2.7",
        }
        service.answer = answering(result="deny")
        assert (await answer(access, ann(username="bob"))).reason_code is BAD


@pytest.mark.parametrize(
    ("code", "body", "expected"),
    [
        (200, b'{"result": "allow"}', GOOD),
        (200, b'{"ok": true, "error": ""}', GOOD),
        (204, b"", GOOD),
        (200, b'{"result": "deny"}', BAD),
        (200, b'{"result": "ignore"}', BAD),
        (200, b'{"ok": false}', BAD),
        (401, b"no", BAD),
        (403, b"", BAD),
        (404, b"", BAD),
        (200, b"", UNAVAILABLE),
        (200, b"<html>allow</html>", UNAVAILABLE),
        (200, b'["allow"]', UNAVAILABLE),
        (200, b'{"result": "perhaps"}', UNAVAILABLE),
        (200, b'{"result": ["allow"]}', UNAVAILABLE),
        (200, b"{}", UNAVAILABLE),
        (200, b'{"result": "allow", "user": "*"}', UNAVAILABLE),
        (200, b'{"result": "allow", "user": 7}', UNAVAILABLE),
        (200, b'{"result": "allow", "publish": "a/#"}', UNAVAILABLE),
        (200, b'{"result": "allow", "publish": ["a/#/b"]}', UNAVAILABLE),
        (200, b'{"result": "allow", "subscribe": [1]}', UNAVAILABLE),
        (200, json.dumps({"result": "allow", "publish": ["a"] * 1_001}).encode(), UNAVAILABLE),
        (200, b'{"result": "allow", "x": "%s"}' % (b"x" * 70_000), UNAVAILABLE),
        (200, b"[" * 60_000, UNAVAILABLE),
        (302, b"", UNAVAILABLE),
        (500, b'{"result": "allow"}', UNAVAILABLE),
        (503, b"", UNAVAILABLE),
    ],
)
@on_loop
async def test_answers_of_the_service_are_interpreted(
    code: int, body: bytes, expected: ReasonCode
) -> None:
    async with asking(lambda said: (code, body)) as (access, _):
        assert (await answer(access, ann())).reason_code is expected


@on_loop
async def test_the_services_rules_add_to_the_files() -> None:
    rules = (RuleSection(user="*", subscribe=("public/#",)),)
    say = answering(result="allow", user="dr. ann", publish=["own/%c"])
    async with asking(say, AccessSection(rules=rules)) as (access, _):
        admission = await answer(access, ann())
        assert admission.user == "dr. ann"
        assert admission.checks_session
        for permissions in (admission.permissions, access.permissions("dr. ann", "c")):
            assert permissions.may_publish("own/c")
            assert not permissions.may_publish("own/d")
            assert permissions.may_subscribe("public/a")
            assert not permissions.may_subscribe("own/c")
        # An unknown user loses nothing; an anonymous client has only what the rules grant.
        assert access.permissions("bob", "d").may_publish("own/c")
        assert not access.permissions("", "d").may_publish("own/c")


@on_loop
async def test_users_of_the_password_file_need_no_service(tmp_path: Path) -> None:
    (tmp_path / "users").write_text(password_line("ann", "secret"), encoding="utf-8")
    section = AccessSection(passwords=str(tmp_path / "users"))
    async with asking(answering(500), section) as (access, service):
        assert (await answer(access, ann())).reason_code is GOOD
        assert (await answer(access, ann(password=b"guess"))).reason_code is BAD
        assert not service.asked
        assert (await answer(access, ann(username="bob"))).reason_code is UNAVAILABLE
        assert (await answer(access, ClientCredentials(client_id="c"))).reason_code is (
            ReasonCode.NOT_AUTHORIZED
        )
        assert (await answer(access, ann(certificate="sensor"))).user == "sensor"


@on_loop
async def test_named_users_are_checked_even_if_anonymous_ones_are_allowed() -> None:
    async with asking(answering(result="deny"), AccessSection(anonymous=True)) as (access, service):
        assert (await answer(access, ClientCredentials(client_id="c"))).reason_code is GOOD
        assert not service.asked
        assert (await answer(access, ann())).reason_code is BAD


@on_loop
async def test_answers_are_cached_without_passwords(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_users, "MOST_KEPT", 2)

    def right(said: dict[str, Any]) -> tuple[int, bytes]:
        return (204 if said["password"] == "secret" else 403), b""

    async with asking(right) as (access, service):
        for _ in range(3):
            assert (await answer(access, ann())).reason_code is GOOD
            assert (await answer(access, ann(address="192.0.2.7:2"))).reason_code is GOOD
            assert (await answer(access, ann(password=b"guess"))).reason_code is BAD
        assert len(service.asked) == 2
        http = access._outside._http
        assert http is not None
        assert "secret" not in repr(http._kept)
        for other in (ann(client_id="d"), ann(address="192.0.2.8:1"), ann(username="annc")):
            assert (await answer(access, other)).reason_code is GOOD
        assert len(service.asked) == 5
        assert len(http._kept) == 2
        assert (await answer(access, ann())).reason_code is GOOD  # it was the oldest
        assert len(service.asked) == 6


@on_loop
async def test_nothing_is_cached_if_switched_off() -> None:
    async with asking(ALLOW, cache_s=0) as (access, service):
        for _ in range(2):
            await answer(access, ann())
        assert len(service.asked) == 2


@on_loop
async def test_a_slow_service_admits_no_one_and_gets_few_requests_at_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "shoal")
    async with asking(ALLOW, timeout_s=0.3) as (access, service):
        service.is_slow = True
        asked = [
            ann(client_id=f"c{n}", address=f"192.0.2.{n % 250}:1")
            for n in range(http_users.MOST_WAITING)
        ]
        answers = await asyncio.gather(*(answer(access, each) for each in asked))
        assert {each.reason_code for each in answers} == {UNAVAILABLE}
        assert len(service.asked) <= 4 * http_users.MOST_UNDER_WAY
        problems = [each.problem for each in caplog.records if hasattr(each, "problem")]
        assert problems == ["no answer within 0.3 s"]
        service.is_slow = False
        async with asyncio.timeout(PATIENCE_S):
            while (await answer(access, ann())).reason_code is not GOOD:
                pass
        assert "answers again" in caplog.text


@on_loop
async def test_too_many_waiting_clients_are_refused_for_now(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_users, "MOST_WAITING", 70)
    async with asking(ALLOW) as (access, service):
        service.is_slow = True
        one = [ann(client_id=f"c{n}") for n in range(65)]
        others = [ann(client_id=f"d{n}", address=f"198.51.100.{n}:1") for n in range(7)]
        waiting = [asyncio.create_task(answer(access, each)) for each in (*one, *others)]
        while not service.under_way:
            await asyncio.sleep(0.01)
        service.is_slow = False
        codes = [each.reason_code for each in await asyncio.gather(*waiting)]
        assert codes == [GOOD] * 64 + [BUSY] + [GOOD] * 6 + [BUSY]
        http = access._outside._http
        assert http is not None
        assert not http._waiting


@on_loop
async def test_without_the_service_no_client_is_admitted() -> None:
    async with serving(ALLOW) as service:
        url = service.url
    access = NetworkAccess(AccessSection(http=HttpUsersSection(url=url)))
    assert (await answer(access, ann())).reason_code is UNAVAILABLE
    await access.close()


@on_loop
async def test_a_disconnected_client_is_not_checked() -> None:
    async with asking(ALLOW) as (access, service):
        assert access.admit(ann()) is None
        await access.answer(ann(), lambda: True)
        assert not service.asked


@pytest.mark.parametrize("count", [200, *at_length([10_000])])
@on_loop
async def test_many_users_of_the_service_are_admitted(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_users, "MOST_WAITING_PER_ADDRESS", 2_048)
    async with asking(answering(result="allow", publish=["a/%u"])) as (access, service):
        found = [
            each
            for first in range(0, count, 100)
            for each in await asyncio.gather(
                *(answer(access, ann(username=f"u{n}")) for n in range(first, first + 100))
            )
        ]
        assert [each.user for each in found] == [f"u{n}" for n in range(count)]
        assert all(
            each.permissions.may_publish(f"a/u{n}") and not each.permissions.may_publish("a/u")
            for n, each in enumerate(found)
        )
        assert service.most_under_way <= http_users.MOST_UNDER_WAY
        http = access._outside._http
        assert http is not None
        assert len(http._kept) == count


@on_loop
async def test_the_service_gets_the_brokers_token(tmp_path: Path) -> None:
    (tmp_path / "bearer").write_text("of-the-broker\n", encoding="utf-8")
    async with asking(ALLOW, bearer_file=str(tmp_path / "bearer")) as (access, service):
        await answer(access, ann())
        assert "Bearer of-the-broker" in service.headers[0]


@on_loop
async def test_a_reload_keeps_the_services_users() -> None:
    rules = (RuleSection(user="*", subscribe=("public/#",)),)
    async with asking(answering(result="allow", publish=["own"])) as (access, service):
        admission = await answer(access, ann())
        credentials = ann(password=None, known=admission.known)

        def after(http: HttpUsersSection, rules: tuple[RuleSection, ...] = ()) -> NetworkAccess:
            return NetworkAccess(AccessSection(http=http, rules=rules), access)

        same = HttpUsersSection(url=service.url)
        more = after(same, rules)
        permissions = access.renewed(more, credentials)
        assert permissions is not None
        assert permissions.may_publish("own")
        assert permissions.may_subscribe("public/a")
        assert more.permissions("ann", "c").may_publish("own")
        assert more.renewed(after(same), credentials) is None  # it may not subscribe any longer
        slower = after(HttpUsersSection(url=service.url, timeout_s=1))
        assert access.renewed(slower, credentials) is not None
        assert access.renewed(NetworkAccess(AccessSection()), credentials) is None
        elsewhere = after(HttpUsersSection(url=service.url + "/other"))
        assert access.renewed(elsewhere, credentials) is None
        # A drained stream is not closed.
        assert (await answer(more, ann(client_id="new"))).reason_code is GOOD
        await access.close(after=more)
        assert (await answer(more, ann(client_id="newer"))).reason_code is GOOD


@on_loop
async def test_a_reload_during_a_check_answers_every_client() -> None:
    async with asking(ALLOW) as (access, service):
        service.is_slow = True
        waiting = [
            asyncio.create_task(answer(access, ann(client_id=f"c{number}")))
            for number in range(2 * http_users.MOST_UNDER_WAY)
        ]
        while service.under_way < http_users.MOST_UNDER_WAY:
            await asyncio.sleep(0.01)
        await access.close(after=NetworkAccess(AccessSection(), access))
        service.is_slow = False
        found = await asyncio.gather(*waiting)
        assert {each.reason_code for each in found} <= {GOOD, UNAVAILABLE}
        await access.close()


def test_a_package_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """`pip install shoal` installs neither package."""
    for package, section in (
        ("httpx", AccessSection(http=HttpUsersSection(url="https://example.org/"))),
        ("jwt", AccessSection(jwt=TokensSection(jwks_url="https://example.org/"))),
    ):
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, package, None)
            with pytest.raises(AccessError, match=rf"needs the package {package}; pip install"):
                NetworkAccess(section)
