"""The certificates of the TLS page are accepted by brokers, clients and operators."""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess
from pathlib import Path

import msgspec
import pytest

from shoal.client import Client, Tls
from shoal.runtime.free_ports import free_ports
from shoal.runtime.network_file import parse_network
from tests.docs.blocks import ROOT
from tests.runtime.live import PATIENCE_S, until
from tests.runtime.one_service import running

PAGE = (ROOT / "docs" / "how-to" / "tls.md").read_text(encoding="utf-8")


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
def test_brokers_are_linked_and_clients_let_in_with_the_page_s_certificates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = re.search(r"^```shell\n(openssl .*?)^```\n\n```toml\n(.*?)^```", PAGE, re.M | re.S)
    assert recipe is not None
    monkeypatch.chdir(tmp_path)
    subprocess.run(["bash", "-ec", recipe[1]], check=True, capture_output=True, timeout=PATIENCE_S)
    ports = iter(free_ports("127.0.0.1", 2))
    brokers = [
        {"name": name, "peers": f"127.0.0.1:{next(ports)}", "mqtts": "127.0.0.1:0"}
        for name in ("B1", "B2")
    ]
    data = {"name": "n", "brokers": brokers, "links": [["B1", "B2"]], "access": {"anonymous": True}}
    network = parse_network(data | msgspec.toml.decode(recipe[2]))

    async def run() -> None:
        async with asyncio.timeout(PATIENCE_S), running(network, "B1", "B2") as (one, two):
            await until(lambda: not (one.links.away or two.links.away))
            port = one.listening["mqtts"].port
            for host in ("127.0.0.1", "localhost"):
                async with Client(f"mqtts://{host}:{port}", tls=Tls(authority="ca.pem")) as client:
                    await client.publish("a", b"1")

    asyncio.run(run())
