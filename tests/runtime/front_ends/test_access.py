"""Authentication by password files, and the rules of users."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.cli.main import main
from shoal.client import Client, ClientError
from shoal.matching.topics.filters import topic_matches
from shoal.mqtt.access import ALL_PERMISSIONS, ClientAdmission, ClientCredentials
from shoal.mqtt.codec.reason_codes import ReasonCode
from shoal.runtime.broker_service import BrokerService
from shoal.runtime.front_ends.entry.access import (
    AccessError,
    AccessRules,
    NetworkAccess,
    _Granted,
    includes,
)
from shoal.runtime.front_ends.entry.passwords import check_password, parse_passwords, password_line
from shoal.runtime.network_file import parse_network
from shoal.runtime.network_sections import AccessSection, RuleSection
from tests.runtime.live import on_loop


@pytest.fixture(scope="module")
def users(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("users") / "passwords"
    path.write_text("# ours\n\n" + password_line("ann", "secret") + "\n")
    return str(path)


async def answer(access: NetworkAccess, **said: object) -> ClientAdmission:
    credentials = ClientCredentials(**{"client_id": "c"} | said)  # type: ignore[arg-type]
    admission = access.admit(credentials)
    if admission is not None:
        assert access.take_owed() is None
        return admission
    assert access.take_owed() == credentials
    return await access.answer(credentials, lambda: False)


@on_loop
async def test_passwords_and_anonymous_clients(users: str) -> None:
    closed = NetworkAccess(AccessSection(passwords=users))
    ann = await answer(closed, username="ann", password=b"secret")
    assert ann.reason_code is ReasonCode.SUCCESS
    for said in ({"password": b"guess"}, {"password": None}, {"username": "bob"}):
        refused = await answer(closed, **{"username": "ann", "password": b"secret"} | said)
        assert refused.reason_code is ReasonCode.BAD_USER_NAME_OR_PASSWORD
    assert (await answer(closed)).reason_code is ReasonCode.NOT_AUTHORIZED
    assert (await answer(closed, certificate="sensor")).reason_code is ReasonCode.SUCCESS
    both = NetworkAccess(AccessSection(passwords=users, anonymous=True))
    assert (await answer(both)).reason_code is ReasonCode.SUCCESS
    wrong = await answer(both, username="ann", password=b"guess")
    assert wrong.reason_code is ReasonCode.BAD_USER_NAME_OR_PASSWORD
    is_open = NetworkAccess(AccessSection(anonymous=True))
    assert (await answer(is_open, username="anybody")).reason_code is ReasonCode.SUCCESS


RULES = AccessRules(
    (
        RuleSection(user="*", subscribe=("public/#",)),
        RuleSection(user="ann", publish=("home/%u/+", "log/%c"), subscribe=("home/+/lamp",)),
        RuleSection(user="", publish=("guests",)),
    )
)


@pytest.mark.parametrize(
    ("user", "topic", "may"),
    [
        ("ann", "home/ann/lamp", True),
        ("ann", "home/ann/lamp/x", False),
        ("ann", "home/bob/lamp", False),
        ("ann", "log/c1", True),
        ("ann", "guests", False),
        ("", "guests", True),
        ("", "public/x", False),
        ("bob", "home/bob/lamp", False),
    ],
)
def test_rules_for_publishing(user: str, topic: str, may: bool) -> None:
    assert RULES.permissions_of(user, "c1").may_publish(topic) is may


@pytest.mark.parametrize(
    ("user", "wanted", "may"),
    [
        ("bob", "public/#", True),
        ("bob", "public/a/+", True),
        ("bob", "public", True),
        ("bob", "#", False),
        ("bob", "+/a", False),
        ("bob", "home/+/lamp", False),
        ("ann", "home/+/lamp", True),
        ("ann", "home/x/lamp", True),
        ("ann", "home/#", False),
        ("ann", "home/+/+", False),
    ],
)
def test_rules_for_subscribing(user: str, wanted: str, may: bool) -> None:
    assert RULES.permissions_of(user, "c1").may_subscribe(wanted) is may


class ReadOnce(tuple[RuleSection, ...]):
    """Rules that may be iterated over once."""

    def __iter__(self) -> Iterator[RuleSection]:
        assert not hasattr(self, "is_read")
        self.is_read = True
        return super().__iter__()


def test_other_users_rules_are_not_read_and_own_ones_keep_their_order() -> None:
    """With 10,000 rules iteration costs 0.5 ms per connection, and twice that at each renewal."""
    rules = AccessRules(
        ReadOnce(
            RuleSection(user=user, publish=(f"{number}",), subscribe=(f"{number}/#",))
            for number, user in enumerate(("ann", "*", "bob", "ann", "", "*", "bob"))
        )
    )
    for user, mine in (("ann", "0135"), ("bob", "1256"), ("", "145"), ("eve", "15"), ("*", "15")):
        granted = rules.permissions_of(user, "c")
        assert isinstance(granted, _Granted)
        assert granted.patterns == ([*mine], [f"{each}/#" for each in mine])


@pytest.mark.parametrize("name", ["+", "#", "a/b", "a#", ""])
def test_a_name_with_wildcards_widens_no_rule(name: str) -> None:
    permissions = AccessRules(
        (RuleSection(user="*", publish=("a/%c/b",), subscribe=("%u/#",)),)
    ).permissions_of(name, name)
    assert not permissions.may_publish(f"a/{name}/b")
    assert not permissions.may_subscribe(f"{name}/#")
    assert not permissions.may_subscribe("#")


LEVELS = st.lists(st.sampled_from(["a", "b", "$c", ""]), min_size=1, max_size=3)
PATTERNS = (
    st.lists(st.sampled_from(["a", "b", "+", "", "$c"]), min_size=1, max_size=3)
    .flatmap(lambda levels: st.sampled_from(["/".join(levels), "/".join((*levels, "#")), "#"]))
    .filter(bool)
)


@given(PATTERNS, PATTERNS, LEVELS.map("/".join).filter(bool))
def test_granted_topics_match_no_others(granted: str, wanted: str, topic: str) -> None:
    rules = AccessRules((RuleSection(user="*", subscribe=(granted,)),))
    if rules.permissions_of("u", "c").may_subscribe(wanted) and topic_matches(wanted, topic):
        assert topic_matches(granted, topic)


RULE_LISTS = st.lists(
    st.builds(
        RuleSection,
        user=st.sampled_from(["u", "*", "other"]),
        publish=st.lists(PATTERNS, max_size=2).map(tuple),
        subscribe=st.lists(PATTERNS, max_size=2).map(tuple),
    ),
    min_size=1,
    max_size=4,
)


@given(RULE_LISTS, RULE_LISTS, LEVELS.map("/".join).filter(bool), PATTERNS)
def test_rights_that_include_the_former_ones_lack_none_of_them(
    before: list[RuleSection], after: list[RuleSection], topic: str, wanted: str
) -> None:
    old, new = (
        AccessRules(tuple(before)).permissions_of("u", "c"),
        AccessRules(tuple(after)).permissions_of("u", "c"),
    )
    if includes(new, old):
        assert new.may_publish(topic) or not old.may_publish(topic)
        assert new.may_subscribe(wanted) or not old.may_subscribe(wanted)


@given(RULE_LISTS, RULE_LISTS, st.randoms(use_true_random=False))
def test_additional_rights_in_any_order_remove_none(
    before: list[RuleSection], added: list[RuleSection], random: Random
) -> None:
    after = [*before, *added]
    random.shuffle(after)
    for user in ("u", "other", ""):
        old, new = (
            AccessRules(tuple(before)).permissions_of(user, "c"),
            AccessRules(tuple(after)).permissions_of(user, "c"),
        )
        assert includes(new, old)


@pytest.mark.parametrize(
    ("before", "after", "keeps"),
    [
        (["a/b"], ["a/#"], True),
        (["a/+"], ["a/#", "b"], True),
        (["a/#"], ["a/+"], False),
        (["a/b", "a/c"], ["a/b"], False),
        (["$SYS/#"], ["#"], False),
        ([], ["#"], True),
    ],
)
def test_inclusion_of_rights(before: list[str], after: list[str], keeps: bool) -> None:
    for key in ("publish", "subscribe"):
        old, new = (
            AccessRules((RuleSection(**{"user": "*", key: tuple(patterns)}),)).permissions_of(
                "u", "c"
            )
            for patterns in (before, after)
        )
        assert includes(new, old) is keeps
        assert includes(ALL_PERMISSIONS, old)


def test_first_rules_remove_rights_of_all_but_unrestricted_users() -> None:
    everything = RuleSection(user="ann", publish=("#",), subscribe=("#",))
    rules = AccessRules((everything, RuleSection(user="bob", publish=("#",))))
    assert includes(rules.permissions_of("ann", "c"), ALL_PERMISSIONS)
    assert not includes(rules.permissions_of("bob", "c"), ALL_PERMISSIONS)


@on_loop
async def test_a_live_broker_asks_for_passwords(users: str) -> None:
    section = {
        "name": "n",
        "brokers": [{"name": "B1", "peers": "127.0.0.1:0", "mqtt": "127.0.0.1:0"}],
        "access": {
            "passwords": users,
            "rules": [{"user": "ann", "publish": ["ann/#"], "subscribe": ["ann/#"]}],
        },
    }
    service = BrokerService(parse_network(section), "B1")
    await service.start()
    address = str(service.listening["mqtt"])
    async with (
        Client(address, username="ann", password="secret") as client,
        client.subscribe("ann/+") as subscription,
    ):
        await client.publish("ann/x", b"hello")
        assert (await subscription.get()).payload == b"hello"
        with pytest.raises(ClientError, match="not authorized"):
            await client.subscribe("#").granted()
        with pytest.raises(ClientError, match="not authorized"):
            await client.publish("bob/x", b"hello")
    for name, word in (("ann", "guess"), ("bob", "secret")):
        with pytest.raises(ClientError, match="bad user name or password"):
            async with Client(address, username=name, password=word):
                pass
    with pytest.raises(
        ClientError, match="not authorized: this broker needs a user name and password"
    ):
        async with Client(address):
            pass
    await service.stop()


def test_the_command_sets_passwords(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "users"
    for user, word in (("ann", "one"), ("bob", "two"), ("ann", "three")):
        with pytest.raises(SystemExit) as caught:
            main(["password", str(path), user, "--password", word])
        assert caught.value.code in (0, None)
    found = parse_passwords(path.read_text())
    assert set(found) == {"ann", "bob"}
    assert check_password(found, "ann", b"three")
    assert not check_password(found, "ann", b"one")
    assert path.stat().st_mode & 0o077 == 0
    assert "three" not in path.read_text()
    with pytest.raises(SystemExit):
        main(["password", str(path), "a:b", "--password", "x"])
    assert "must not be empty or have colons" in capsys.readouterr().err


def test_the_command_reads_a_password_from_a_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A program cannot be prompted, and an empty input is no password."""
    path = tmp_path / "users"
    monkeypatch.delenv("SHOAL_PASSWORD", raising=False)
    for said, code in (("one two\n", 0), ("", 2), ("\n", 2)):
        monkeypatch.setattr("sys.stdin", io.StringIO(said))
        with pytest.raises(SystemExit) as caught:
            main(["password", str(path), "ann"])
        assert (caught.value.code or 0) == code
    assert "standard input is empty" in capsys.readouterr().err
    assert check_password(parse_passwords(path.read_text()), "ann", b"one two")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("ann", "line 1: is not user:scrypt"),
        ("ann:scrypt:16384:8:1:AA:AA", "line 1: is not user:scrypt"),
        ("#\nann:scrypt:1073741824:8:1:AAAA:AAAA", "line 2: asks for more than"),
        ("ann:scrypt:16383:8:1:AAAA:AAAA", "line 1: asks for more than"),
    ],
)
def test_an_invalid_password_file_is_an_error(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "users"
    path.write_text(text)
    with pytest.raises(AccessError, match=problem):
        asyncio.run(access_of(str(path)))


async def access_of(path: str) -> NetworkAccess:
    return NetworkAccess(AccessSection(passwords=path))
