"""Two brokers in network namespaces of their own; the link between them is cut, and mended.

Skipped without Linux, `ip` and the right to make namespaces; then
`tests/runtime/links/test_peer_links.py` tests cuts within one process.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from shoal.client import Client
from shoal.runtime.network_file import dump_network, parse_network
from tests.live.processes import SHOAL
from tests.runtime.live import PATIENCE_S

PUBLICATIONS = 400
# Addresses: .0/30 and .4/30 to the brokers, .8/30 between them. Other runs of this test, which may
# be under way on this machine, use other networks.
_NETWORK = f"10.213.{os.getpid() % 256}"


def address(net: int, host: int) -> str:
    """The first or second address of a network, 1 to 3."""
    return f"{_NETWORK}.{4 * (net - 1) + host}"


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


class Namespaces:
    """Namespaces of two brokers: both reachable from here, and joined by a cable."""

    def __init__(self, stack: ExitStack) -> None:
        self.names = [f"shoal{os.getpid()}b{number}" for number in (1, 2)]
        for number, name in enumerate(self.names, 1):
            ip("netns", "add", name)
            stack.callback(ip, "netns", "del", name)
            ip("-n", name, "link", "set", "lo", "up")
            here, there = f"sh{os.getpid() % 100_000}h{number}", "door"
            ip("link", "add", here, "type", "veth", "peer", "name", there, "netns", name)
            ip("addr", "add", f"{address(number, 1)}/30", "dev", here)
            ip("link", "set", here, "up")
            ip("-n", name, "addr", "add", f"{address(number, 2)}/30", "dev", there)
            ip("-n", name, "link", "set", there, "up")
        one, other = self.names
        ip(
            "-n",
            one,
            "link",
            "add",
            "cable",
            "type",
            "veth",
            "peer",
            "name",
            "cable",
            "netns",
            other,
        )
        for number, name in enumerate(self.names, 1):
            ip("-n", name, "addr", "add", f"{address(3, number)}/30", "dev", "cable")
            ip("-n", name, "link", "set", "cable", "up")

    def cut(self) -> None:
        """Drop everything between the brokers, without notice to their connections."""
        ip("-n", self.names[0], "link", "set", "cable", "down")

    def heal(self) -> None:
        ip("-n", self.names[0], "link", "set", "cable", "up")


@pytest.fixture
def namespaces() -> Iterator[Namespaces]:
    if sys.platform != "linux" or shutil.which("ip") is None:
        pytest.skip("network namespaces need Linux and the program ip (Debian: iproute2)")
    with ExitStack() as stack:
        try:
            found = Namespaces(stack)
        except subprocess.CalledProcessError as error:
            pytest.skip(f"no network namespaces here: {error.stderr.decode().strip()}")
        yield found


@contextmanager
def brokers(namespaces: Namespaces, folder: Path) -> Iterator[None]:
    sections = [
        {
            "name": f"B{number}",
            "peers": f"{address(3, number)}:7000",
            "mqtt": f"{address(number, 2)}:1883",
        }
        for number in (1, 2)
    ]
    network = parse_network(
        {
            "name": "n",
            "brokers": sections,
            "links": [["B1", "B2"]],
            "plain_links": True,
            "access": {"anonymous": True},
            "link_limits": {"silence_us": 2_000_000},
        }
    )
    path = folder / "network.toml"
    path.write_text(dump_network(network), encoding="utf-8")
    with ExitStack() as stack:
        for number, name in enumerate(namespaces.names, 1):
            command = ["ip", "netns", "exec", name, *SHOAL, "serve", str(path), "-b", f"B{number}"]
            log = stack.enter_context((folder / f"B{number}.log").open("wb"))
            process = subprocess.Popen(command, stdout=log, stderr=log)
            stack.callback(process.wait)
            stack.callback(process.terminate)
        yield


async def listening(host: str) -> Client:
    """A subscriber at a running broker."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                _, writer = await asyncio.open_connection(host, 1883)
            except OSError:
                await asyncio.sleep(0.2)
            else:
                writer.close()
                return Client(f"{host}:1883")


async def run(namespaces: Namespaces, cut_s: float) -> list[int]:
    async with (
        await listening(address(1, 2)) as writer,
        await listening(address(2, 2)) as reader,
        reader.subscribe("a") as subscription,
    ):
        arrived = asyncio.create_task(subscription.get())
        while not arrived.done():
            await writer.publish("a", b"-1")
            await asyncio.wait([arrived], timeout=0.2)

        async def publish() -> None:
            for number in range(PUBLICATIONS):
                await writer.publish("a", b"%d" % number, qos=1)
                await asyncio.sleep((cut_s + 1) / PUBLICATIONS)

        publishing = asyncio.create_task(publish())
        await asyncio.sleep(0.3)
        namespaces.cut()
        await asyncio.sleep(cut_s)
        namespaces.heal()
        found: list[int] = []
        async with asyncio.timeout(3 * PATIENCE_S):
            await publishing
            while not found or found[-1] != PUBLICATIONS - 1:
                found.append(int((await subscription.get()).payload))
    return [number for number in found if number >= 0]


@pytest.mark.parametrize("cut_s", [3.0, pytest.param(10.0, marks=pytest.mark.soak)])
def test_a_cut_and_mended_cable_loses_nothing(
    namespaces: Namespaces, tmp_path: Path, cut_s: float
) -> None:
    with brokers(namespaces, tmp_path):
        assert asyncio.run(run(namespaces, cut_s)) == list(range(PUBLICATIONS))
