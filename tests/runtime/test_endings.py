"""Expiry of certificates in use: warnings of `shoal check`, `shoal status` and metrics."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trustme
from rich.console import Console

from shoal.cli.commands import status as status_command
from shoal.cli.main import main
from shoal.cli.support.live.statuses import Statuses
from shoal.runtime.network_file import NetworkFile, dump_network, load_network, parse_network
from shoal.runtime.operations.metrics import render
from shoal.runtime.tls.certificates import Certificates
from shoal.runtime.tls.endings import endings, remark
from tests.runtime.live import on_asyncio
from tests.runtime.one_service import running

DAY_S = 86_400


class Folder:
    """Certificates of B1, valid for so many days, and a network file that names them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._authority = trustme.CA()
        self._authority.cert_pem.write_to_path(path / "ca.pem")

    def issue(self, name: str, days: float) -> None:
        end = datetime.now(UTC) + timedelta(days=days)
        issued = self._authority.issue_cert("B1", common_name="B1", not_after=end)
        issued.private_key_pem.write_to_path(self.path / f"{name}.key")
        (self.path / f"{name}.pem").write_bytes(issued.cert_chain_pems[0].bytes())

    def network(self) -> NetworkFile:
        own = {"certificate": "{broker}.pem", "key": "{broker}.key"}
        listeners = dict.fromkeys(("peers", "mqtts", "admin"), "127.0.0.1:0")
        network = parse_network(
            {
                "name": "ends",
                "brokers": [{"name": "B1"} | listeners],
                "client_tls": {
                    "certificate": "front_end.pem", "key": "front_end.key", "authority": "ca.pem",
                },
                "admin": {**own, "open": True},
                "access": {"anonymous": True},
            }
        )  # fmt: skip
        file = self.path / "network.toml"
        file.write_text(dump_network(network), encoding="utf-8")
        return load_network(file)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    found = Folder(tmp_path)
    found.issue("B1", 400)
    found.issue("front_end", 9.5)
    return found


def test_each_use_and_file_has_its_end(folder: Folder) -> None:
    rows = {row["use"]: row for row in endings(folder.network(), "B1")}
    assert set(rows) == {"clients", "authority of clients", "admin port"}
    assert rows["clients"]["file"] == str(folder.path / "front_end.pem")
    assert abs(rows["clients"]["ends_s"] - time.time() - 9.5 * DAY_S) < 60
    assert abs(rows["admin port"]["ends_s"] - time.time() - 400 * DAY_S) < 60
    assert "ends in 9 days" in remark(rows["clients"])
    assert remark(rows["admin port"]) == ""


def test_of_several_authorities_the_last_counts_and_no_certificate_is_no_error(
    folder: Folder,
) -> None:
    own = folder.path / "ca.pem"
    own.write_bytes((folder.path / "front_end.pem").read_bytes() + own.read_bytes())
    (folder.path / "B1.pem").write_text("nothing")
    rows = {row["use"]: row for row in endings(folder.network(), "B1")}
    assert set(rows) == {"clients", "authority of clients"}
    assert rows["authority of clients"]["ends_s"] > time.time() + 1_000 * DAY_S


def test_check_warns_of_expiring_certificates(
    folder: Folder, capsys: pytest.CaptureFixture[str]
) -> None:
    folder.network()
    with pytest.raises(SystemExit) as ended:
        main(["check", str(folder.path / "network.toml")])
    assert not ended.value.code
    (line,) = [each for each in capsys.readouterr().out.splitlines() if "warning" in each]
    assert line.startswith(
        f"warning: the certificate of clients, {folder.path}/front_end.pem, ends in 9"
    )


def test_certificates_in_use_count_until_replaced(folder: Folder) -> None:
    network = folder.network()
    certificates = Certificates(network, "B1")
    before = list(certificates.endings)
    folder.issue("front_end", 300)
    assert certificates.endings == before
    certificates.renew(certificates.renewable(network))
    now = {row["use"]: row["ends_s"] for row in certificates.endings}
    assert abs(now["clients"] - time.time() - 300 * DAY_S) < 60


@on_asyncio
async def test_status_and_metrics_have_the_expiry(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.issue("B1", 400)
    folder.issue("front_end", 9.5)
    async with running(folder.network(), "B1") as (service,):
        status = service.status()
        console = Console(record=True, width=300)
        status_command._show(console, service.network, Statuses({"B1": dict(status)}))
        said = console.export_text()
    assert re.search(
        r"^B1: the certificate of clients, .*front_end\.pem, ends in 9 days", said, re.M
    )
    assert "admin port" not in said
    text = render(lambda: status).decode()
    (ends,) = re.findall(
        r'shoal_certificate_ends_timestamp_seconds{file=".*front_end.pem",use="clients"} (\S+)',
        text,
    )
    assert abs(float(ends) - time.time() - 9.5 * DAY_S) < 60
    assert re.search(r"^process_resident_memory_bytes \d", text, re.M)
