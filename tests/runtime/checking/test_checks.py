"""`shoal check` reports all faults at once, each with its place."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from shoal.cli.main import main
from shoal.runtime.checking.checks import Checked, check_file
from shoal.runtime.front_ends.entry.passwords import password_line

TLS = {"authority": "ca.pem", "certificate": "{broker}.pem", "key": "{broker}.key"}
FRONT_ENDS = {"certificate": "{broker}.pem", "key": "{broker}.key"}


# `trustme` writes names in lower case.
def broker(number: int, **changes: Any) -> dict[str, Any]:
    keys = ("peers", "mqtts", "admin")
    where = {key: f"127.0.0.1:{7_000 + 100 * place + number}" for place, key in enumerate(keys)}
    return {"name": f"b{number}", **where} | changes


class Folder:
    """A faultless network of two brokers, with its files."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.authority = trustme.CA()
        self.authority.cert_pem.write_to_path(path / "ca.pem")
        for name in ("b1", "b2"):
            self.issue(name)
        self.data: dict[str, Any] = {
            "name": "n",
            "links": [["b1", "b2"]],
            "brokers": [broker(1), broker(2)],
            "tls": TLS,
            "client_tls": FRONT_ENDS,
            "admin": {**FRONT_ENDS, "authority": "ca.pem", "passwords": "operators"},
            "access": {"passwords": "users", "rules": [{"user": "ann", "publish": ["a/#"]}]},
            "storage": {"folder": "data"},
        }
        for file, user in (("users", "ann"), ("operators", "olga")):
            (path / file).write_text(password_line(user, "secret"), encoding="utf-8")

    def issue(self, name: str, *names: str, days: float = 90, key: str = "") -> None:
        given = names or (name, "localhost", "127.0.0.1")
        issued = self.authority.issue_cert(
            *given,
            common_name=given[0],
            not_after=datetime.now(UTC) + timedelta(days=days),
        )
        issued.private_key_pem.write_to_path(self.path / f"{key or name}.key")
        issued.cert_chain_pems[0].write_to_path(self.path / f"{name}.pem")

    def check(self, **changes: Any) -> Checked:
        file = self.path / "network.toml"
        file.write_bytes(msgspec.toml.encode(self.data | changes))
        return check_file(file)

    def faults(self, **changes: Any) -> list[str]:
        """The faults, without the names of the network file and the folder."""
        texts = self.check(**changes).faults
        cut = (text.removeprefix(f"{self.path}/network.toml: ") for text in texts)
        return [text.replace(f"{self.path}/", "") for text in cut]

    def warnings(self, **changes: Any) -> list[str]:
        return [text.replace(f"{self.path}/", "") for text in self.check(**changes).warnings]


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def test_a_right_network_has_no_faults(folder: Folder) -> None:
    found = folder.check()
    assert (found.faults, found.warnings) == ([], [])
    assert found.network is not None


def test_all_faults_are_reported_at_once_with_an_exit_code(
    folder: Folder, capsys: pytest.CaptureFixture[str]
) -> None:
    folder.issue("other", "b1")
    (folder.path / "b1.key").write_bytes((folder.path / "other.key").read_bytes())
    folder.issue("b2", days=-1)
    (folder.path / "data").write_text("a file", encoding="utf-8")
    brokers = [broker(1, mqttz="x"), broker(2, admin="nowhere"), broker(1)]
    rules = [{"user": "eve"}, {"user": "ann", "publish": ["a/#/b"]}]
    folder.check(
        brokers=brokers, access=folder.data["access"] | {"rules": rules}, links=[["b1", "b9"]]
    )
    with pytest.raises(SystemExit) as ended:
        main(["check", str(folder.path / "network.toml")])
    assert ended.value.code == 2
    said = capsys.readouterr().err
    for place in (
        "brokers[0].mqttz: unknown key",
        "brokers[1].admin: 'nowhere' is not host:port",
        "access.rules[1].publish: topic filter 'a/#/b'",
        "brokers[2].name: there is another broker 'b1'",
        "links[0]: no broker 'b9'",
        "b1.key: is not the key of",
        "b2.pem, has ended",
        "data is no folder",
    ):
        assert place in said, place


def test_a_key_of_another_certificate_is_a_fault(folder: Folder) -> None:
    folder.issue("other", "b1")
    (folder.path / "b1.key").write_bytes((folder.path / "other.key").read_bytes())
    assert folder.faults() == [
        f"{table}.key: b1.key: is not the key of b1.pem" for table in ("tls", "client_tls", "admin")
    ]


def test_keys_with_passwords_and_wrong_files_are_faults(folder: Folder) -> None:
    key = load_pem_private_key((folder.path / "b1.key").read_bytes(), None)
    locked = key.private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret")
    )
    (folder.path / "b1.key").write_bytes(locked)
    (folder.path / "b2.pem").write_text("nothing")
    found = folder.faults()
    assert "tls.key: b1.key: has a password, which brokers do not know" in found
    assert "tls.certificate: b2.pem: has no certificate in it, as PEM" in found


def test_signers_and_purposes_of_certificates_are_checked(folder: Folder) -> None:
    strange = trustme.CA()
    strange.cert_pem.write_to_path(folder.path / "ca.pem")
    found = folder.faults()
    assert "tls.certificate: b1.pem: tls.authority, ca.pem, has not signed it" in found
    assert "admin.certificate: b2.pem: admin.authority, ca.pem, has not signed it" in found
    between = folder.authority.create_child_ca()
    issued = between.issue_cert("b1", "127.0.0.1", common_name="b1")
    (folder.path / "b1.pem").write_bytes(b"".join(each.bytes() for each in issued.cert_chain_pems))
    issued.private_key_pem.write_to_path(folder.path / "b1.key")
    folder.authority.cert_pem.write_to_path(folder.path / "ca.pem")
    assert folder.faults() == []
    (folder.path / "ca.pem").write_bytes((folder.path / "b2.pem").read_bytes())
    assert "tls.authority: ca.pem: is no authority's certificate" in "\n".join(folder.faults())


def test_certificates_must_name_their_address(folder: Folder) -> None:
    folder.issue("b1", "b1", "b1.example.org")
    folder.issue("b2", "elsewhere", "*.example.org", "127.0.0.1")
    here = "clients reach b1 at 127.0.0.1:7101 (mqtts); if that is another name, say it in"
    assert folder.faults() == [
        "tls.certificate: b2.pem: is made out to *.example.org, elsewhere, not to b2",
        f"client_tls.certificate: b1.pem: is made out to b1, b1.example.org; {here} public.mqtts",
        "admin.certificate: b2.pem: is made out to *.example.org, elsewhere, not to b2",
    ]
    public = [broker(number, public={"mqtts": f"b{number}.example.org:8883"}) for number in (1, 2)]
    assert [each for each in folder.faults(brokers=public) if "client_tls" in each] == []


def test_one_certificate_for_all_is_a_warning(folder: Folder) -> None:
    folder.issue("all", "b1", "b2", "127.0.0.1")
    one = {"certificate": "all.pem", "key": "all.key"}
    changes = {"tls": TLS | one, "client_tls": one, "admin": folder.data["admin"] | one}
    assert folder.faults(**changes) == []
    assert [text.partition(",")[0] for text in folder.warnings(**changes)] == [
        f"{table}.certificate: all.pem: b1" for table in ("tls", "client_tls", "admin")
    ]


def test_expired_certificates_are_faults_and_soon_expiring_ones_warnings(folder: Folder) -> None:
    folder.issue("b1", days=-2)
    folder.issue("b2", days=9.5)
    assert all("b1.pem, has ended" in text for text in folder.faults())
    assert len(folder.faults()) == 3
    assert all("b2.pem, ends in 9 days" in text for text in folder.warnings())
    assert folder.warnings()[0].endswith("(tls.certificate)")


def test_a_file_of_another_machine_is_a_warning(folder: Folder) -> None:
    (folder.path / "b2.key").unlink()
    assert folder.faults() == []
    assert "tls.key: {broker}.key is not here for b2; each" in folder.warnings()[0]


def test_unknown_users_of_rules_are_faults(folder: Folder) -> None:
    rules = [{"user": each} for each in ("ann", "bob", "*", "")]
    access = folder.data["access"] | {"rules": rules}
    admin = folder.data["admin"] | {"orders": ["olga", "otto"]}
    assert folder.faults(access=access, admin=admin) == [
        "access.rules[1].user: 'bob' is unknown: users lists no such user",
        "admin.orders[1]: 'otto' is unknown: operators lists no such operator",
    ]
    assert folder.warnings(access=access)[0].startswith("access.rules[3].user: is for clients")
    certified = folder.data["client_tls"] | {"authority": "ca.pem"}
    assert folder.faults(access=access, client_tls=certified) == []
    assert "'bob': users lists no" in folder.warnings(access=access, client_tls=certified)[0]


def test_unreadable_password_files_are_faults(folder: Folder) -> None:
    (folder.path / "users").write_text("ann:secret", encoding="utf-8")
    (folder.path / "operators").write_text("", encoding="utf-8")
    line = "line 1: is not user:scrypt:n:r:p:salt:hash; write it by: shoal password"
    assert folder.faults() == [
        f"access.passwords: users: {line}",
        "admin.passwords: operators: has no operator; write one by: shoal password",
    ]


def test_rules_and_origins_that_never_match_are_faults(folder: Folder) -> None:
    rules = [{"user": "ann", "subscribe": ["$share/g/a"]}]
    access = folder.data["access"] | {"rules": rules, "origins": ["*", "app.example.org"]}
    assert [text.partition(":")[0] for text in folder.faults(access=access)] == [
        "access.rules[0].subscribe",
        "access.origins[1]",
    ]


def test_brokers_without_listeners_are_reported(folder: Folder) -> None:
    deaf = {"mqtts": "", "admin": ""}
    assert folder.faults(brokers=[broker(1), broker(2, **deaf)]) == []
    said = folder.warnings(brokers=[broker(1), broker(2, **deaf)])
    assert [text.partition(":")[0] for text in said] == ["brokers[1]", "brokers[1].admin"]
    both = [broker(1, **deaf), broker(2, **deaf)]
    (text,) = folder.faults(brokers=both)
    assert text.startswith("brokers: none has a listener for clients")


def test_ports_of_two_listeners_are_faults(folder: Folder) -> None:
    brokers = [
        broker(1, mqtt="0.0.0.0:7001", websocket="127.0.0.1:7101"),
        broker(2, mqtt="localhost:7001", public={"mqtt": "b:1", "mqtts": "b:1"}),
    ]
    assert [text.partition(":")[0] for text in folder.faults(brokers=brokers)] == [
        "brokers[0].websocket",
        "brokers[0].mqtt",
        "brokers[1].mqtt",
        "brokers[1].public.mqtts",
        "client_tls.certificate",
    ]


def test_impossible_folders_are_faults(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder.path / "file").write_text("")
    found = folder.faults(storage={"folder": "file/data"}, trace={"folder": "file"})
    assert found == [
        "storage.folder: file/data/b1: file is no folder, but a file",
        "trace.folder: file: file is no folder, but a file",
    ]
    monkeypatch.setattr("os.access", lambda path, mode: False)
    (text,) = folder.faults()
    assert text.startswith("storage.folder: data/b1: you may not write to")


def test_users_of_services_and_tokens_are_known(folder: Folder) -> None:
    """A rule may name a user that a service or a token names; keys and addresses are checked."""
    rules = [{"user": "bob", "publish": ["b/#"]}]
    access: dict[str, Any] = {"http": {"url": "http://192.0.2.1/users"}, "rules": rules}
    assert folder.faults(access=access) == []
    (warning,) = folder.warnings(access=access)
    assert warning.startswith("access.http.url: http://192.0.2.1/users goes without TLS")


def access_faults(folder: Folder, **access: Any) -> list[str]:
    return folder.faults(access={"anonymous": True} | access)


def test_token_keys_and_addresses_are_checked(folder: Folder) -> None:
    (folder.path / "secret").write_bytes(b"short")
    assert access_faults(folder, jwt={"secret_file": "secret"}) == [
        "access.jwt: secret: has fewer than 32 bytes"
    ]
    assert access_faults(folder, jwt={"audience": "mqtt"}) == [
        "access.jwt: give key_file, secret_file or jwks_url; without, no token is taken"
    ]
    assert access_faults(folder, jwt={"key_file": "none.pem"}) == [
        "access.jwt.key_file: no file none.pem"
    ]
    (fault,) = access_faults(folder, jwt={"jwks_url": "example.org"})
    assert "is no address such as" in fault
    (fault,) = access_faults(folder, http={"url": "https://me:hidden@example.org/"})
    assert "must not have a name or a password in it" in fault
    assert "hidden" not in fault
