"""The Kubernetes manifests fit each other, their network file, and Kubernetes' schemas."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from shoal.runtime.network_file import NetworkFile, parse_network

ROOT = Path(__file__).parents[3]
FILES = sorted((ROOT / "examples" / "kubernetes").glob("*.yaml"))
# The oldest version of Kubernetes that the manifests are checked against.
OLDEST = "1.30"


def manifests() -> list[dict[str, Any]]:
    return [each for file in FILES for each in yaml.safe_load_all(file.read_text("utf-8"))]


def of(kind: str) -> dict[str, dict[str, Any]]:
    return {each["metadata"]["name"]: each for each in manifests() if each["kind"] == kind}


def network() -> NetworkFile:
    return parse_network(tomllib.loads(of("ConfigMap")["shoal-network"]["data"]["network.toml"]))


def pods() -> list[str]:
    brokers = of("StatefulSet")["shoal"]
    return [f"shoal-{number}" for number in range(brokers["spec"]["replicas"])]


def container() -> dict[str, Any]:
    (found,) = of("StatefulSet")["shoal"]["spec"]["template"]["spec"]["containers"]
    return found


def test_each_broker_has_a_pod_and_a_service() -> None:
    assert [each.name for each in network().brokers] == pods()
    ports = {each["name"]: each["containerPort"] for each in container()["ports"]}
    for broker in network().brokers:
        service = of("Service")[broker.name]["spec"]
        assert service["selector"] == {"statefulset.kubernetes.io/pod-name": broker.name}
        # Otherwise links, which a ready broker needs, would never come up.
        assert service["publishNotReadyAddresses"]
        listeners = broker.listeners()
        assert ports == {key: int(text.rpartition(":")[2]) for key, text in listeners.items()}
        for port in service["ports"]:
            host, _, number = broker.public[port["name"]].partition(":")
            assert host in (broker.name, f"{broker.name}.shoal.svc")
            assert (port["targetPort"], port["port"]) == (port["name"], int(number))
        assert {each["name"] for each in service["ports"]} == listeners.keys()


def test_clients_reach_only_ready_brokers() -> None:
    service = of("Service")["shoal"]["spec"]
    assert "publishNotReadyAddresses" not in service
    assert [each["name"] for each in service["ports"]] == ["mqtts"]


def test_brokers_start_in_parallel() -> None:
    """In order, the first would wait to be ready for one that is not started."""
    spec = of("StatefulSet")["shoal"]["spec"]
    assert spec["podManagementPolicy"] == "Parallel"
    assert spec["serviceName"] in of("Service")
    assert spec["selector"]["matchLabels"] == spec["template"]["metadata"]["labels"]
    assert of("PodDisruptionBudget")["shoal"]["spec"]["maxUnavailable"] == 1


def test_files_of_the_network_file_are_mounted() -> None:
    found, spec = network(), of("StatefulSet")["shoal"]["spec"]
    mounts = {each["mountPath"]: each["name"] for each in container()["volumeMounts"]}
    assert mounts[found.storage.folder] == spec["volumeClaimTemplates"][0]["metadata"]["name"]
    assert found.tls is not None
    for file in (found.tls.authority, found.admin.passwords, *found.access.passwords.split()):
        assert file.startswith("/etc/shoal/secret/")
    volumes = {each["name"]: each for each in spec["template"]["spec"]["volumes"]}
    assert volumes[mounts["/etc/shoal/secret"]]["secret"]
    config = volumes[mounts["/etc/shoal/network"]]["configMap"]
    assert config["name"] in of("ConfigMap")
    assert container()["args"][1].startswith("/etc/shoal/network/")


def test_probes_need_no_password() -> None:
    asked = {name: container()[f"{name}Probe"]["httpGet"] for name in ("liveness", "readiness")}
    assert asked["liveness"]["path"] == "/health"
    assert asked["readiness"]["path"] == "/ready"
    assert all(each["port"] == "admin" for each in asked.values())
    assert all(each["scheme"] == "HTTPS" for each in asked.values())
    assert network().admin.is_over_tls


def test_the_pod_runs_as_the_images_user() -> None:
    lines = (ROOT / "examples" / "live" / "Dockerfile").read_text("utf-8")
    spec = of("StatefulSet")["shoal"]["spec"]["template"]["spec"]
    assert f"--uid {spec['securityContext']['runAsUser']} " in lines


@pytest.mark.parametrize("manifest", manifests(), ids=lambda each: str(each["metadata"]["name"]))
def test_manifests_match_kubernetes_schemas(manifest: dict[str, Any]) -> None:
    """By the schemas of Kubernetes' API; `make manifests` installs them."""
    validate = pytest.importorskip("kubernetes_validate")
    for version in (OLDEST, validate.latest_version()):
        validate.validate(manifest, version, strict=True)
