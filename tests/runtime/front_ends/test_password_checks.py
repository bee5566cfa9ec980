"""However many clients fail, others' passwords are checked."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from shoal.client import Client
from shoal.mqtt.codec.encoder import encode
from shoal.mqtt.codec.packet_types import MQTT_5
from shoal.mqtt.codec.packets import Connect
from shoal.runtime.broker_service import BrokerService
from shoal.runtime.front_ends.entry import password_checks
from shoal.runtime.front_ends.entry.password_checks import (
    MAX_CHECKS,
    MAX_WAITING,
    MAX_WAITING_PER_ADDRESS,
    FailureMemory,
    PasswordChecks,
)
from shoal.runtime.front_ends.entry.passwords import PasswordHash, password_line
from shoal.runtime.network_file import parse_network
from tests.runtime.live import on_loop


class CheckedPasswords:
    """Right passwords are marked as such; each check waits for `go_on`."""

    def __init__(self) -> None:
        self.users: list[str] = []
        self.go_on = threading.Event()

    def __call__(self, user: str, password: bytes) -> bool:
        self.users.append(user)
        self.go_on.wait(10)
        return password == b"right"


def here() -> bool:
    return False


def asking(
    checks: PasswordChecks,
    user: str,
    password: bytes = b"wrong",
    address: str = "192.0.2.1:1",
    is_gone: Callable[[], bool] = here,
) -> asyncio.Task[bool | None]:
    return asyncio.ensure_future(checks.check(user, password, address, is_gone))


@on_loop
async def test_a_disconnected_client_is_not_checked() -> None:
    matches = CheckedPasswords()
    checks = PasswordChecks(matches)
    first = [asking(checks, f"slow{number}") for number in range(2)]
    gone = [asking(checks, "gone", is_gone=lambda: True) for _ in range(40)]
    last = asking(checks, "last", b"right")
    await asyncio.sleep(0)
    matches.go_on.set()
    assert await last is True
    assert await asyncio.gather(*first) == [False, False]
    assert await asyncio.gather(*gone) == [None] * 40
    assert matches.users == ["slow0", "slow1", "last"]


@on_loop
async def test_clients_with_failures_are_checked_later() -> None:
    matches = CheckedPasswords()
    matches.go_on.set()
    checks = PasswordChecks(matches)
    assert await asking(checks, "mallory") is False
    matches.go_on.clear()
    matches.users.clear()
    busy = [asking(checks, f"slow{number}", b"right", "192.0.2.9:1") for number in range(2)]
    await asyncio.sleep(0)
    mallory = asking(checks, "mallory")
    same_address = asking(checks, "ann", b"right")
    elsewhere = asking(checks, "ann", b"right", "192.0.2.2:1")
    await asyncio.sleep(0)
    matches.go_on.set()
    assert await elsewhere is True
    assert await same_address is True
    assert await mallory is False
    assert await asyncio.gather(*busy) == [True, True]
    assert matches.users == ["slow0", "slow1", "ann", "ann", "mallory"]


@on_loop
async def test_an_addresss_queue_is_bounded_and_the_worst_is_dropped() -> None:
    matches = CheckedPasswords()
    matches.go_on.set()
    checks = PasswordChecks(matches)
    assert await asking(checks, "mallory") is False
    matches.go_on.clear()
    many = [asking(checks, "mallory") for _ in range(MAX_CHECKS + MAX_WAITING_PER_ADDRESS)]
    await asyncio.sleep(0)
    ann = asking(checks, "ann", b"right")
    await asyncio.sleep(0)
    matches.go_on.set()
    assert await ann is True
    assert await many[-1] is None, "the last of the failed ones makes room"
    for each in many:
        each.cancel()


@on_loop
async def test_a_known_user_precedes_guesses_from_40_addresses() -> None:
    """1,024 wait, the maximum; a user admitted from there before is the next."""
    matches = CheckedPasswords()
    matches.go_on.set()
    checks = PasswordChecks(matches)
    at_home = "198.51.100.7:1"
    assert await asking(checks, "ann", b"right", at_home) is True
    assert await asking(checks, "ann", b"typo", at_home) is False
    matches.go_on.clear()
    matches.users.clear()
    guesses = [
        asking(checks, f"ann{number % 7}", address=f"192.0.2.{number % 40}:1")
        for number in range(MAX_WAITING + 200)
    ]
    await asyncio.sleep(0)
    assert sum(map(len, checks._waiting.values())) == MAX_WAITING
    new = asking(checks, "bob", b"right", "203.0.113.1:1")
    ann = asking(checks, "ann", b"right", at_home)
    await asyncio.sleep(0)
    matches.go_on.set()
    assert await new is True
    # Each of the 40 addresses has one turn at most before its first failure.
    assert matches.users.index("bob") <= 40 + MAX_CHECKS
    assert await ann is True
    # Refused addresses, and those with one failure, come behind her single one.
    assert matches.users.index("ann") <= 40 + 2 * MAX_CHECKS
    for each in guesses:
        each.cancel()


@on_loop
async def test_a_user_at_a_known_address_is_checked_first() -> None:
    matches = CheckedPasswords()
    matches.go_on.set()
    checks = PasswordChecks(matches)
    assert await asking(checks, "ann", b"right", "198.51.100.7:1") is True
    assert await asking(checks, "eve", b"guess", "198.51.100.7:2") is False
    matches.go_on.clear()
    matches.users.clear()
    busy = [asking(checks, f"slow{number}", b"right", "192.0.2.9:1") for number in range(2)]
    guesses = [asking(checks, "ann", address=f"192.0.2.{number}:1") for number in range(40)]
    ann = asking(checks, "ann", b"right", "198.51.100.7:3")
    await asyncio.sleep(0)
    matches.go_on.set()
    assert await ann is True
    assert matches.users[:3] == ["slow0", "slow1", "ann"]
    for each in (*busy, *guesses):
        each.cancel()


@on_loop
async def test_addresses_are_checked_in_turn() -> None:
    matches = CheckedPasswords()
    checks = PasswordChecks(matches)
    many = [asking(checks, f"many{number}", b"right") for number in range(20)]
    few = [asking(checks, f"few{number}", b"right", "192.0.2.2:1") for number in range(3)]
    await asyncio.sleep(0)
    matches.go_on.set()
    assert await asyncio.gather(*few) == [True] * 3
    assert len([user for user in matches.users if user.startswith("many")]) <= 3 + 2 * MAX_CHECKS
    assert await asyncio.gather(*many) == [True] * 20


def test_a_pause_doubles_and_expires() -> None:
    memory, name = FailureMemory(), ("192.0.2.1", "ann")
    pauses = []
    for _ in range(8):
        memory.add(name, 1.0)
        pauses.append(memory.failures_of(name, 1.0).pause_s)
    assert pauses == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]
    assert memory.failures_of(name, 1.0 + password_checks.REMEMBERED_S).pause_s == 0
    for number in range(2 * password_checks.MAX_REMEMBERED):
        memory.add((str(number),), 2.0)
    assert memory.failures_of(name, 2.0).times == 0
    assert memory.failures_of((str(2 * password_checks.MAX_REMEMBERED - 1),), 2.0).times == 1


@on_loop
async def test_the_right_password_is_admitted_among_many_wrong_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 400 sockets with a wrong password all but 20 close at once."""
    path = tmp_path / "passwords"
    path.write_text(password_line("ann", "secret") + "\n")
    checked = []
    matches = PasswordHash.matches

    def count(self: PasswordHash, password: bytes) -> bool:
        checked.append(password)
        return matches(self, password)

    monkeypatch.setattr(PasswordHash, "matches", count)
    section = {
        "name": "n",
        "brokers": [{"name": "B1", "peers": "127.0.0.1:0", "mqtt": "127.0.0.1:0"}],
        "access": {"passwords": str(path)},
    }
    service = BrokerService(parse_network(section), "B1")
    await service.start()
    address = service.listening["mqtt"]
    connect = Connect(client_id="", username="ann", password=b"guess", version=MQTT_5)
    held = []
    for number in range(400):
        _, writer = await asyncio.open_connection(address.host, address.port)
        writer.write(encode(connect, MQTT_5))
        if number % 20:
            writer.close()
        else:
            held.append(writer)
    async with Client(str(address), username="ann", password="secret"):
        pass
    assert len(checked) < 100, "closed sockets were not checked"
    for writer in held:
        writer.close()
    await service.stop()
