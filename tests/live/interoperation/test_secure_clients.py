"""Mosquitto's clients (3.1.1 and 5) over TLS, as users with rules, with content filters.

One network of three brokers; each kind of subscriber receives from each kind of publisher.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trustme

from shoal.runtime.addresses import read_address
from shoal.runtime.front_ends.entry.passwords import password_line
from tests.docs.test_questions import BROKERS, Scene
from tests.live.interoperation.test_real_clients import needs_mosquitto
from tests.runtime.forked import Forked
from tests.runtime.live import PATIENCE_S
from tests.runtime.processes import wait_until

RULES = [
    {"user": "bob", "publish": ["flights/#"], "subscribe": ["flights/#"]},
    {"user": "eve", "publish": ["gossip"], "subscribe": ["gossip"]},
]
VERSIONS = "mqttv311", "mqttv5"


class Tour(Scene):
    """The network, and mosquitto's clients for it."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, access={"passwords": "users", "rules": RULES})
        lines = password_line("bob", "secret"), password_line("eve", "secret")
        (folder / "users").write_text("\n".join(lines))
        trustme.CA().cert_pem.write_to_path(folder / "other.pem")

    def words(
        self,
        program: str,
        broker: str,
        version: str,
        *options: str,
        user: str = "bob",
        password: str = "secret",
        authority: str = "ca.pem",
    ) -> list[str]:
        address = read_address(self.mqtts[broker].removeprefix("mqtts://"))
        words = [f"mosquitto_{program}", "-h", address.host, "-p", str(address.port)]
        words += ["-V", version, "-u", user, "-P", password, "-q", "1"]
        words += ["--cafile", str(self.folder / authority)] if authority else []
        return [*words, *options]

    def run(self, *words: str, **options: str) -> tuple[int, str]:
        """A client's output until it ends, and its exit code."""
        done = subprocess.run(
            self.words(*words, **options),
            capture_output=True, text=True, check=False, timeout=2 * PATIENCE_S,
        )  # fmt: skip
        return done.returncode, done.stdout + done.stderr

    def subscriptions(self) -> int:
        """The number of subscriptions that B1 knows."""
        statuses = json.loads(self.answer(3)[1])
        return int(statuses["B1"]["tables"]["subscriptions"])

    def publish(self, version: str, topic: str, delay: int) -> None:
        """Publish with attributes in the version's form: user properties, or a JSON payload."""
        if version == "mqttv5":
            given = ("-D", "publish", "user-property", "delay", str(delay), "-m", "late")
        else:
            given = ("-m", json.dumps({"delay": delay}))
        assert self.run("pub", "B1", version, "-t", topic, *given) == (0, "")


@pytest.fixture
def tour(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Tour]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SHOAL_OPERATOR", "ann")
    monkeypatch.setenv("SHOAL_OPERATOR_PASSWORD", "kept")
    found = Tour(tmp_path)
    brokers = [
        Forked(("serve", str(found.path), "--broker", name), tmp_path / f"{name}.log")
        for name in BROKERS
    ]
    try:
        wait_until(lambda: found.answer(1)[0] == 0)
        yield found
    finally:
        for broker in brokers:
            broker.send_signal(9)  # type: ignore[arg-type]
        for broker in brokers:
            broker.wait(PATIENCE_S)
            broker.stdout.close()


@contextmanager
def subscribing(tour: Tour) -> Iterator[list[subprocess.Popen[str]]]:
    """Subscribers at B3 (MQTT 5) and B2 (3.1.1) of values above 30; B1 knows both."""
    where = ("-D", "subscribe", "user-property", "$where", "delay > 30")
    ends = ("-C", "2", "-F", "%t", "-W", str(int(2 * PATIENCE_S)))
    before = tour.subscriptions()
    commands = [
        tour.words("sub", "B3", "mqttv5", "-t", "flights/#", *where, *ends),
        tour.words("sub", "B2", "mqttv311", "-t", "$where/delay>30/flights/#", *ends),
    ]
    clients = [
        subprocess.Popen(each, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for each in commands
    ]
    try:
        wait_until(lambda: tour.subscriptions() == before + len(clients))
        yield clients
    finally:
        for client in clients:
            client.kill()
            client.communicate()


@needs_mosquitto
def test_mosquittos_clients_use_filters_users_and_tls_together(tour: Tour) -> None:
    with subscribing(tour) as clients:
        for version, early, late in (("mqttv311", 10, 31), ("mqttv5", 30, 99)):
            tour.publish(version, f"flights/{version}/early", early)
            tour.publish(version, f"flights/{version}/late", late)
        heard = [client.communicate(timeout=2 * PATIENCE_S)[0].split() for client in clients]
    assert heard == [[f"flights/{version}/late" for version in VERSIONS]] * 2
    for version in VERSIONS:
        to_b1 = ("pub", "B1", version, "-t", "flights/x", "-m", "x")
        # A wrong user, and an untrusted broker.
        code, said = tour.run(*to_b1, password="wrong")
        assert (code != 0, "bad user name or password" in said.lower()) == (True, True), said
        code, said = tour.run(*to_b1, authority="other.pem")
        assert (code != 0, "certificate verify failed" in said or "TLS" in said) == (True, True)
        assert tour.run(*to_b1, authority="")[0] != 0
        # A forbidden publication: MQTT 5 has a reason code, 3.1.1 none; no subscriber receives it.
        code, said = tour.run(*to_b1, user="eve")
        assert ("Not authorized" in said) == (version == "mqttv5"), said
        code, said = tour.run(
            "sub", "B2", version, "-t", "flights/#", "-C", "1", "-W", "20", user="eve"
        )
        assert (code != 0 or "denied" in said, "flights/x" in said) == (True, False), said
    # A client may learn of its refusal before the log line is written.
    for event, broker in (
        ("connect refused", "B1"),
        ("publish refused", "B1"),
        ("subscribe refused", "B2"),
    ):
        log = tour.folder / f"{broker}.log"
        wait_until(lambda: log.read_text().count(f'"event": "{event}"') >= len(VERSIONS))  # noqa: B023
