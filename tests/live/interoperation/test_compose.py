"""The compose example without Docker: its file, its commands and its health checks.

Two things differ: files and folders are elsewhere, and brokers listen on this machine only.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from shoal.runtime.addresses import read_address
from shoal.runtime.free_ports import free_ports
from shoal.runtime.network_file import load_network
from tests.runtime.live import PATIENCE_S
from tests.runtime.processes import SHOAL, wait_until
from tools.image_steps import try_image

ROOT = Path(__file__).parents[3]
LIVE = ROOT / "examples" / "live"
COMPOSE: dict[str, Any] = yaml.safe_load((LIVE / "docker-compose.yml").read_text(encoding="utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
DOCKERFILE = (LIVE / "Dockerfile").read_text(encoding="utf-8")


def test_the_compose_file_names_existing_files_and_services() -> None:
    network = load_network(LIVE / "network.toml")
    assert set(SERVICES) == {broker.name for broker in network.brokers}
    published: list[str] = []
    for name, service in SERVICES.items():
        build = service["build"]
        context = (LIVE / build["context"]).resolve()
        assert context == ROOT
        assert (context / build["dockerfile"]).is_file()
        for volume in service["volumes"]:
            source, target, *_ = volume.split(":")
            if source.startswith("."):
                assert (LIVE / source).is_file()
            else:
                assert source in COMPOSE["volumes"]
                assert target == network.storage.folder
                assert f"-o shoal {target}" in DOCKERFILE  # the image's user may write there
        broker = network.broker(name)
        # Other services reach a service by its name.
        assert read_address(broker.peers).host == name
        # Ports that show clients are the broker's own machine's; no other broker's port leads
        # there.
        admin = read_address(broker.admin)
        assert admin.host == "127.0.0.1"
        assert not [pair for pair in service["ports"] if pair.endswith(f":{admin.port}")]
        inside = {read_address(text).port for text in broker.listeners().values()}
        for pair in service["ports"]:
            outside, _, port = pair.partition(":")
            assert int(port) in inside
            published.append(outside)
            public = [read_address(text) for text in broker.public.values()]
            assert [each.host for each in public if str(each.port) == outside] == ["localhost"]
    assert len(published) == len(set(published))
    assert re.search(r'^ENTRYPOINT \["shoal"\]$', DOCKERFILE, flags=re.MULTILINE)
    assert int(SERVICES["east"]["stop_grace_period"].rstrip("s")) >= 10


class Composed:
    """The services as processes."""

    def __init__(self, folder: Path) -> None:
        text = (LIVE / "network.toml").read_text(encoding="utf-8")
        self._ports: dict[str, str] = {}
        self._folder = folder

        def here(found: re.Match[str]) -> str:
            (port,) = free_ports("127.0.0.1", 1)
            if found[1] == "127.0.0.1":  # the URL of a health check
                self._ports[found[2]] = str(port)
            return f'"127.0.0.1:{port}"'

        text = re.sub(r"(?m)^public = .*$", "", text)
        text = re.sub(r'"(\w+|[\d.]+):(\d+)"', here, text)
        (folder / "network.toml").write_text(text.replace("/var/lib/shoal", str(folder / "data")))
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str) -> None:
        words = shlex.split(SERVICES[name]["command"])
        words = [each.replace("/etc/shoal", str(self._folder)) for each in words]
        with (self._folder / f"{name}.log").open("wb") as log:
            self.running[name] = subprocess.Popen([*SHOAL, *words], stdout=log, stderr=log)

    def health(self, name: str) -> int:
        """The exit code of a service's health check."""
        kind, *words = SERVICES[name]["healthcheck"]["test"]
        assert (kind, words[0]) == ("CMD", "python")
        for port, mine in self._ports.items():
            words = [each.replace(f"127.0.0.1:{port}/", f"127.0.0.1:{mine}/") for each in words]
        done = subprocess.run([sys.executable, *words[1:]], capture_output=True, check=False)
        return done.returncode

    def stop(self) -> None:
        for process in self.running.values():
            process.terminate()
        for process in self.running.values():
            process.wait(PATIENCE_S)


@pytest.fixture
def composed(tmp_path: Path) -> Iterator[Composed]:
    composed = Composed(tmp_path)
    try:
        yield composed
    finally:
        composed.stop()


def test_every_command_runs_and_health_checks_are_right(composed: Composed) -> None:
    assert composed.health("east") == 1  # nothing listens yet
    composed.start("east")
    log = composed._folder / "east.log"
    wait_until(lambda: b'"started"' in log.read_bytes())
    assert composed.health("east") == 1  # it waits for its link
    for name in ("middle", "west"):
        composed.start(name)
    for name in SERVICES:
        wait_until(lambda name=name: composed.health(name) == 0)  # type: ignore[misc]
    composed.running["middle"].terminate()
    assert composed.running["middle"].wait(PATIENCE_S) == 0  # as `docker stop` does
    assert composed.health("middle") == 1


@pytest.mark.soak
def test_the_images_steps_make_a_broker(tmp_path: Path) -> None:
    """The steps of the Dockerfile in an empty folder: without Spark, and it serves."""
    try_image(tmp_path)


def test_the_systemd_unit_starts_a_broker_by_its_name() -> None:
    unit = (LIVE / "shoal@.service").read_text(encoding="utf-8")
    (words,) = re.findall(r"^ExecStart=(.+)$", unit, flags=re.MULTILINE)
    program, *options = words.split()
    assert Path(program).name == "shoal"
    assert [program, *options[:-2]] == [program, "serve", "/etc/shoal/network.toml"]
    assert options[-2:] == ["--broker", "%i"]
    stops_in_s = int(re.findall(r"^TimeoutStopSec=(\d+)$", unit, flags=re.MULTILINE)[0])
    assert stops_in_s >= 10
