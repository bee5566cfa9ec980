"""Users with signed tokens as passwords: signers, audiences, and claims."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import aiomqtt
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from shoal.mqtt.access import ClientAdmission, ClientCredentials
from shoal.mqtt.codec.reason_codes import ReasonCode
from shoal.runtime.front_ends.entry import tokens
from shoal.runtime.front_ends.entry.access import AccessError, NetworkAccess
from shoal.runtime.front_ends.entry.passwords import password_line
from shoal.runtime.network_sections import AccessSection, HttpUsersSection, TokensSection
from tests.runtime.front_ends.test_http_users import answer
from tests.runtime.front_ends.user_service import answering, serving
from tests.runtime.live import PATIENCE_S, on_loop, until
from tests.runtime.one_service import network, running

SECRET = b"of 32 bytes at least, and of more"
GOOD, BAD = ReasonCode.SUCCESS, ReasonCode.BAD_USER_NAME_OR_PASSWORD
MAKERS: dict[str, Callable[[], Any]] = {
    "RS256": lambda: rsa.generate_private_key(65_537, 2_048),
    "ES256": lambda: ec.generate_private_key(ec.SECP256R1()),
    "EdDSA": ed25519.Ed25519PrivateKey.generate,
}


@pytest.fixture
def secret(tmp_path: Path) -> str:
    path = tmp_path / "secret"
    path.write_bytes(SECRET + b"\n")
    return str(path)


def token(key: Any = SECRET, algorithm: str = "HS256", kid: str = "", **claims: Any) -> bytes:
    said = {"sub": "ann", "exp": int(time.time()) + 60, **claims}
    said = {name: value for name, value in said.items() if value is not None}
    return jwt.encode(said, key, algorithm, {"kid": kid} if kid else None).encode()


def shows(password: bytes | None, username: str | None = "any") -> ClientCredentials:
    return ClientCredentials(client_id="c", username=username, password=password)


def with_tokens(**keys: Any) -> NetworkAccess:
    return NetworkAccess(AccessSection(jwt=TokensSection(**keys)))


@on_loop
async def test_a_token_has_the_user_and_its_rights(secret: str) -> None:
    access = with_tokens(secret_file=secret)
    for username in ("any", None):
        found = await answer(access, shows(token(publish=["own/%u"], subscribe=["#"]), username))
        assert (found.reason_code, found.user) == (GOOD, "ann")
        assert found.permissions.may_publish("own/ann")
        assert not found.permissions.may_publish("own/bob")
        assert found.permissions.may_subscribe("a/b")
        assert found.lasts_us is not None
        assert 0 < found.lasts_us <= (61 + tokens.LEEWAY_S) * 1_000_000
    free = await answer(access, shows(token()))
    assert free.permissions.may_publish("own/bob")
    renamed = with_tokens(secret_file=secret, user="name", publish="pub", ends_connections=False)
    found = await answer(renamed, shows(token(name="bob", pub=["a"], sub=None)))
    assert (found.user, found.lasts_us) == ("bob", None)
    assert found.permissions.may_publish("a")
    assert not found.permissions.may_subscribe("a")


@pytest.mark.parametrize(
    "claims",
    [
        {"exp": None},
        {"exp": int(time.time()) - 60},
        {"exp": "soon"},
        {"nbf": int(time.time()) + 86_400},
        {"aud": "others"},
        {"aud": None},
        {"iss": "others"},
        {"iss": None},
        {"sub": None},
        {"sub": ""},
        {"sub": "*"},
        {"publish": "a/#"},
        {"publish": ["a/#/b"]},
        {"subscribe": {"a": 1}},
        {"key": b"another secret of 32 bytes or more"},
    ],
)
@on_loop
async def test_invalid_tokens_are_refused(secret: str, claims: dict[str, Any]) -> None:
    access = with_tokens(secret_file=secret, audience="mqtt", issuer="us")
    right = {"aud": ["mqtt", "web"], "iss": "us"}
    assert (await answer(access, shows(token(**right)))).reason_code is GOOD
    found = await answer(access, shows(token(**{**right, **claims})))
    assert found.reason_code is BAD
    assert found.reason is not None
    assert found.reason.startswith("the token is not good here: ")


@on_loop
async def test_a_password_that_is_no_token_is_refused(secret: str) -> None:
    access = with_tokens(secret_file=secret)
    unsigned = jwt.encode({"sub": "ann", "exp": time.time() + 60}, None, "none").encode()
    for password in (b"", b"eyJ.x.y", b"eyJ" + b"." * 2, b"eyJ" + b"x" * 20_000 + b"..", unsigned):
        assert (await answer(access, shows(password))).reason_code is BAD
    assert (await answer(access, shows(b"secret"))).reason_code is BAD
    assert (await answer(access, shows(None, None))).reason_code is ReasonCode.NOT_AUTHORIZED


@pytest.mark.parametrize("algorithm", MAKERS)
@on_loop
async def test_public_keys_are_read_from_files(tmp_path: Path, algorithm: str) -> None:
    key = MAKERS[algorithm]()
    path = tmp_path / "key.pem"
    pem = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    path.write_bytes(pem)
    access = with_tokens(key_file=str(path))
    assert (await answer(access, shows(token(key, algorithm)))).reason_code is GOOD
    others = MAKERS[algorithm]()
    assert (await answer(access, shows(token(others, algorithm)))).reason_code is BAD
    # The public key must not be accepted as a shared secret.
    forged = jwt.api_jws.PyJWS()
    forged.unregister_algorithm("HS256")
    forged.register_algorithm("HS256", _AnySecret(jwt.algorithms.HMACAlgorithm.SHA256))
    claims = json.dumps({"sub": "ann", "exp": int(time.time()) + 60}).encode()
    found = await answer(access, shows(forged.encode(claims, pem, "HS256").encode()))
    assert found.reason_code is BAD


class _AnySecret(jwt.algorithms.HMACAlgorithm):
    """Signs with a public key, as a forger would."""

    def prepare_key(self, key: Any) -> bytes:
        return bytes(key)


def jwks(**keys: Any) -> dict[str, Any]:
    found = []
    for name, key in keys.items():
        row = jwt.algorithms.ECAlgorithm.to_jwk(key.public_key(), as_dict=True)
        found.append({**row, "kid": name, "alg": "ES256", "use": "sig"})
    return {"keys": found}


@on_loop
async def test_public_keys_are_read_from_an_address(monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = MAKERS["ES256"](), MAKERS["ES256"]()
    async with serving(answering(**jwks(old=old))) as service:
        access = with_tokens(jwks_url=service.url)
        for _ in range(3):
            found = await answer(access, shows(token(old, "ES256", "old")))
            assert found.reason_code is GOOD
        assert (await answer(access, shows(token(old, "ES256")))).reason_code is GOOD
        assert len(service.asked) == 1
        # Unknown key names do not cause a request each; a new key is found after a while.
        service.answer = answering(**jwks(old=old, new=new))
        for _ in range(3):
            assert (await answer(access, shows(token(new, "ES256", "new")))).reason_code is BAD
        assert len(service.asked) == 1
        monkeypatch.setattr(tokens, "AGAIN_S", 0.0)
        assert (await answer(access, shows(token(new, "ES256", "new")))).reason_code is GOOD
        # A removed key counts until the next read; an invalid answer changes nothing.
        monkeypatch.setattr(tokens, "FRESH_S", 0.0)
        for bad in (
            answering(500),
            answering(keys="none"),
            answering(keys=[]),
            lambda _: (200, b"[" * 60_000),
        ):
            service.answer = bad
            assert (await answer(access, shows(token(new, "ES256", "new")))).reason_code is GOOD
        service.answer = answering(**jwks(new=new))
        assert (await answer(access, shows(token(old, "ES256", "old")))).reason_code is BAD
        await access.close()


@on_loop
async def test_without_keys_no_client_is_admitted() -> None:
    async with serving(answering(404)) as service:
        access = with_tokens(jwks_url=service.url)
        for _ in range(2):
            found = await answer(access, shows(token()))
            assert found.reason_code is ReasonCode.SERVER_UNAVAILABLE
        await access.close()


@on_loop
async def test_passwords_and_a_service_work_beside_tokens(secret: str, tmp_path: Path) -> None:
    (tmp_path / "users").write_text(password_line("ann", "secret"), encoding="utf-8")
    async with serving(answering(result="allow", user="of the service")) as service:
        access = NetworkAccess(
            AccessSection(
                passwords=str(tmp_path / "users"),
                jwt=TokensSection(secret_file=secret),
                http=HttpUsersSection(url=service.url),
            )
        )

        async def who(credentials: ClientCredentials) -> str:
            found: ClientAdmission = await answer(access, credentials)
            return found.user

        assert await who(shows(b"secret", "ann")) == "ann"
        assert await who(shows(token(sub="bob"), "ann")) == "bob"
        assert await who(shows(b"whatever", "eve")) == "of the service"
        await access.close()


@pytest.mark.parametrize(
    ("file", "text", "problem"),
    [
        ("secret_file", b"short", "has fewer than 32 bytes"),
        ("key_file", b"no key", "is no public key as PEM"),
    ],
)
def test_unusable_keys_are_errors(tmp_path: Path, file: str, text: bytes, problem: str) -> None:
    path = tmp_path / "key"
    path.write_bytes(text)
    with pytest.raises(AccessError, match=problem):
        with_tokens(**{file: str(path)})
    with pytest.raises(AccessError, match="No such file"):
        with_tokens(**{file: str(path) + "x"})


@on_loop
async def test_a_connection_ends_with_its_token_and_the_next_one_sets_the_rights(
    secret: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokens, "LEEWAY_S", 0)
    access = {"jwt": {"secret_file": secret}}
    async with asyncio.timeout(PATIENCE_S), running(network(access=access), "B1") as (service,):
        clients = service.front_end.clients

        def client(password: bytes) -> aiomqtt.Client:
            address, kept = service.listening["mqtt"], Properties(PacketTypes.CONNECT)
            kept.SessionExpiryInterval = 100
            return aiomqtt.Client(
                address.host,
                address.port,
                identifier="c",
                username="x",
                password=password.decode(),
                protocol=aiomqtt.ProtocolVersion.V5,
                clean_start=False,
                properties=kept,
            )

        with pytest.raises(aiomqtt.MqttError, match="Bad user name or password"):
            await client(token(b"another secret of 32 bytes or more")).__aenter__()
        async with client(token(subscribe=["a", "b"])) as first:
            await first.subscribe([("a", 1), ("b", 1)])
            assert clients.sessions["c"].user == "ann"
        with suppress(aiomqtt.MqttError):
            async with client(token(subscribe=["b"], exp=int(time.time()) + 2)) as second:
                await until(lambda: list(clients.sessions["c"].subscriptions) == ["b"])
                service.reload(service.network)
                assert clients.statistics.connected == 1
                await second.messages.__anext__()  # none comes
        assert clients.statistics.notices.refusals["closed", "not authorized"] == 1
