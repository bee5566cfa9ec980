"""Network files: typed keys, writing, and errors with their path."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from shoal.overlays.dynatops.parameters import EarthParameters
from shoal.overlays.publisher_relocation.grape.parameters import GrapeParameters
from shoal.runtime.addresses import Address, read_address
from shoal.runtime.network_file import dump_network, hints, load_network, parse_network, problems
from shoal.typed_toml import TomlError

TEXT = """
name = "three sites"
system = "grape"
links = [["B1", "B2"], ["B2", "B3"]]

[[brokers]]
name = "B1"
peers = "127.0.0.1:7001"
mqtt = "0.0.0.0:1883"
admin = "127.0.0.1:8181"

[[brokers]]
name = "B2"
peers = "127.0.0.1:7002"

[[brokers]]
name = "B3"
peers = "[::1]:7003"

[grape]
weight = 40

[access]
anonymous = true

[[access.rules]]
user = "*"
publish = ["home/%u/#"]

[limits]
maximum_inflight = 10

[storage]
folder = "data"
sync = "always"

[trace]
folder = "trace"
""".replace("three sites", "three-sites")


TRIANGLE = [["B1", "B2"], ["B2", "B3"], ["B1", "B3"]]


def network(**changes: Any) -> dict[str, Any]:
    brokers = [{"name": f"B{n}", "peers": f"127.0.0.1:700{n}"} for n in (1, 2, 3)]
    links = [["B1", "B2"], ["B2", "B3"]]
    return {"name": "n", "brokers": brokers, "links": links} | changes


def broker(**changes: Any) -> dict[str, Any]:
    return network(brokers=[{"name": "B1", "peers": "127.0.0.1:7001"} | changes], links=[])


def test_a_file_is_read_and_written_back(tmp_path: Path) -> None:
    path = tmp_path / "network.toml"
    path.write_text(TEXT)
    read = load_network(path)
    assert read.neighbours("B2") == ("B1", "B3")
    assert read.broker("B1").address("mqtt") == Address("0.0.0.0", 1883)
    assert read.broker("B2").address("mqtt") is None
    assert read.system_parameters == GrapeParameters(weight=40)
    assert read.trace.folder == str(tmp_path / "trace")
    assert problems(read) == []
    path.write_text(dump_network(read))
    assert load_network(path) == read


def test_defaults_are_the_systems_own() -> None:
    assert parse_network(network(system="grape")).system_parameters is None
    assert parse_network(network()).system == "tree"


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "system": (network(system="forest"), "network: system: no system 'forest'; use one of tree"),
    "own system": (
        network(system="mine", mine={}),
        "'mine'; use one of tree, grape, pop, bluedove",
    ),
    "key": (network(sytem="tree"), "network: sytem: unknown key; did you mean system?"),
    "broker key": (broker(mqqt="x"), "brokers[0].mqqt: unknown key; did you mean mqtt?"),
    "missing": (network(brokers=[{"name": "B1"}]), "brokers[0].peers: is missing"),
    "no broker": (network(brokers=[]), "brokers: expected a list of length >= 1"),
    "address": (broker(mqtt="1883"), "brokers[0].mqtt: '1883' is not host:port"),
    "port": (broker(admin="localhost:99999"), "brokers[0].admin: 'localhost:99999' is not host"),
    "public": (
        broker(public={"mqtt": "b1:1883"}),
        "brokers[0]: public.mqtt: there is no such listener",
    ),
    "nowhere": (
        broker(mqtt="0.0.0.0:1883", public={"mqtt": "0.0.0.0:1884"}),
        "brokers[0]: public.mqtt: no machine can connect to 0.0.0.0:1884",
    ),
    "name": (broker(name="B 1"), "brokers[0].name: expected text of the form"),
    "system key": (network(grape={"weigth": 3}), "grape.weigth: unknown key; did you mean weight?"),
    "system value": (network(grape={"weight": 101}), "grape.weight: 101 is not between 0 and 100"),
    "limits": (
        network(link_limits={"low_bytes": 9, "high_bytes": 8}),
        "link_limits.high_bytes: is not between low_bytes and limit_bytes",
    ),
    "sync": (
        network(storage={"sync": "sometimes"}),
        "storage.sync: 'sometimes' is unknown; use one of",
    ),
    "storage": (
        network(storage={"dir": "x"}),
        "storage.dir: unknown key; known here: folder, sync, acknowledge, ",
    ),
    "parameters": (network(parameters={}), "parameters: unknown key; a system's table has its"),
    "rule": (
        network(access={"rules": [{"user": "*", "publish": ["a/#/b"]}]}),
        "access.rules[0].publish: ",
    ),
    "link": (network(links=[["B1"]]), "links[0]: expected a list of length 2, got 1"),
}


@pytest.mark.parametrize("name", WRONG)
def test_type_errors_name_the_path(name: str) -> None:
    data, problem = WRONG[name]
    with pytest.raises(TomlError) as caught:
        parse_network(data)
    assert problem in str(caught.value)


def two_at(one: str, other: str) -> dict[str, Any]:
    brokers = [{"name": "B1", "peers": one}, {"name": "B2", "peers": other}]
    return network(brokers=brokers, links=[["B1", "B2"]])


ODD: dict[str, tuple[dict[str, Any], list[str]]] = {
    "twice": (
        network(brokers=[broker()["brokers"][0]] * 2, links=[]),
        [
            "brokers[1].name: there is another broker 'B1'",
            "brokers[1].peers: 127.0.0.1:7001 is brokers[0].peers already",
        ],
    ),
    "stranger": (network(links=[["B1", "B9"]]), ["links[0]: no broker 'B9'"]),
    "itself": (network(links=[["B1", "B1"]]), ["links[0]: joins 'B1' to itself"]),
    "cycle": (
        network(links=[["B1", "B2"], ["B2", "B3"], ["B3", "B1"]]),
        ["links: link B3 - B1 closes a cycle; an overlay is a tree"],
    ),
    "apart": (
        network(links=[["B1", "B2"]]),
        ["links: 1 of 3 brokers cannot be reached from B1, the first is B3"],
    ),
    "open": (
        two_at("0.0.0.0:7001", "127.0.0.1:7002"),
        ["brokers[0].peers: 0.0.0.0:7001 is open to other machines; it needs [tls]"],
    ),
    "any port": (
        two_at("127.0.0.1:0", "127.0.0.1:7002"),
        ["brokers[0].peers: other brokers must know the port; 0 is any free one"],
    ),
    "open on purpose": (two_at("0.0.0.0:7001", "10.0.0.1:7002") | {"plain_links": True}, []),
    "nobody": (
        broker(mqtt="127.0.0.1:1883"),
        ["access: no client is admitted; set anonymous = true or name passwords = a file"],
    ),
    "no passwords": (
        broker(mqtt="127.0.0.1:1883") | {"access": {"passwords": "/no/users"}},
        ["access.passwords: no file /no/users"],
    ),
    "no client TLS": (
        broker(mqtts="127.0.0.1:8883") | {"access": {"anonymous": True}},
        ["client_tls: is missing; listeners over TLS (mqtts, wss) need it"],
    ),
    "no TLS for WebSocket": (
        broker(wss="127.0.0.1:8884") | {"access": {"anonymous": True}},
        ["client_tls: is missing; listeners over TLS (mqtts, wss) need it"],
    ),
    "no folder": (
        network(storage={"folder": __file__}),
        [f"storage.folder: {__file__} is no folder"],
    ),
    "too large for a link": (
        network(limits={"maximum_packet_size": 61_000_000}),
        [
            "limits.maximum_packet_size: 61000000 bytes do not fit on links; take at most "
            "60293120, or raise link_limits.limit_bytes"
        ],
    ),
    "large": (
        network(
            limits={"maximum_packet_size": 268_435_460},
            link_limits={"limit_bytes": 600_000_000},
        ),
        [],
    ),
    "patient, and in order": (
        network(system="octopia", links=TRIANGLE, link_limits={"give_up_us": 25_000_000}),
        [
            "link_limits.give_up_us: 25000000 and silence_us, 5000000, are together to be less "
            "than 30000000, for which octopia waits for what is on links"
        ],
    ),
    "patient, in no order": (
        network(
            system="octopia",
            links=TRIANGLE,
            link_limits={"give_up_us": 25_000_000},
            octopia={"dynamic": "free"},
        ),
        [],
    ),
    "large for one broker": (broker() | {"limits": {"maximum_packet_size": 268_435_460}}, []),
    "stored nowhere": (
        network(storage={"acknowledge": "stored"}),
        ["storage.acknowledge: stored needs a disk; set storage.folder"],
    ),
    "stored in a cluster": (
        network(system="bluedove", storage={"acknowledge": "stored", "folder": "/no/folder/yet"}),
        ["storage.acknowledge: stored: bluedove does not, and counts who is away as gone"],
    ),
    "folder to be made": (network(storage={"folder": "/no/folder/yet"}), []),
    "no certificate": (
        network(tls={"authority": "/no/ca", "certificate": "/no/{broker}", "key": "/no/{broker}"}),
        ["tls.authority: no file /no/ca"],
    ),
}


@pytest.mark.parametrize("name", ODD)
def test_impossible_settings_name_the_path(name: str) -> None:
    data, found = ODD[name]
    assert problems(parse_network(data)) == found


@pytest.mark.parametrize(
    ("system", "storage", "acknowledge"),
    [
        ("tree", {}, "settled"),
        ("tree", {"folder": "data"}, "stored"),
        ("tree", {"folder": "data", "acknowledge": "settled"}, "settled"),
        ("bluedove", {"folder": "data"}, "settled"),
    ],
)
def test_with_storage_disconnected_brokers_are_not_waited_for(
    system: str, storage: dict[str, str], acknowledge: str
) -> None:
    parsed = parse_network(network(system=system, storage=storage))
    assert parsed.acknowledge == acknowledge
    assert parse_network(tomllib.loads(dump_network(parsed))) == parsed


@pytest.mark.parametrize("text", ["", "1883", ":1883", "host:", "host:x", "a b:1", "::1:80"])
def test_invalid_addresses_are_errors(text: str) -> None:
    with pytest.raises(ValueError, match="is not host:port"):
        read_address(text)


@pytest.mark.parametrize(
    ("text", "loopback"),
    [("127.0.0.2:1", True), ("[::1]:1", True), ("localhost:1", True), ("10.0.0.1:1", False),
     ("example.org:1", False), ("0.0.0.0:1", False)],
)  # fmt: skip
def test_loopback_is_known(text: str, loopback: bool) -> None:
    assert read_address(text).is_loopback is loopback
    assert str(read_address(text)) == text


def test_a_listener_for_readers_without_a_log_is_named(tmp_path: Path) -> None:
    data = network()
    data["brokers"][1]["log"] = "127.0.0.1:8101"
    assert hints(parse_network(data)) == ["brokers[1].log: B2 keeps no log; set log.folder"]
    data["log"] = {"folder": str(tmp_path / "log"), "brokers": ["B1", "B9"]}
    read = parse_network(data)
    assert hints(read) == ["brokers[1].log: B2 keeps no log; set log.brokers with B2"]
    assert "log.brokers: no broker 'B9'" in problems(read)
    (tmp_path / "log").touch()
    assert any(each.startswith("log.folder: ") for each in problems(read))
    with pytest.raises(TomlError, match=r"log\.topics|topics"):
        parse_network(data | {"log": {"folder": "x", "topics": ["a/#/b"]}})


@pytest.mark.parametrize("system", ["geops", "bayeux"])
def test_brokers_places_are_the_coordinates_of_their_system(system: str) -> None:
    data = network(plain_links=True) | {"system": system, "links": []}
    for name in ("grape", "pop"):
        data.pop(name, None)
    places = {"B1": [48.2, 16.4], "B2": [52.5, 13.4], "B3": [40.6, -73.8]}
    for each in data["brokers"][:2]:
        each["place"] = places[each["name"]]
    assert hints(parse_network(data)) == [
        f"brokers[2].place: B3 has none; paths of {system} go by brokers' names until each has "
        "its latitude and longitude"
    ]
    data["brokers"][2]["place"] = places["B3"]
    read = parse_network(data)
    assert hints(read) == []
    parameters = read.system_parameters
    assert isinstance(parameters, EarthParameters)
    assert parameters.coordinates == {broker: tuple(at) for broker, at in places.items()}
    data[system] = {"coordinates": {"B3": [1.0, 2.0]}, "topic": "city"}
    parameters = parse_network(data).system_parameters
    assert isinstance(parameters, EarthParameters)
    assert (parameters.coordinates["B3"], parameters.topic) == ((1.0, 2.0), "city")
    data[system] = {"reconfigure_us": 1_000_000}
    with pytest.raises(TomlError, match=f"{system}.reconfigure_us: .* keep their places"):
        parse_network(data)
    assert parse_network(data | {"system": "dynatops"}).system == "dynatops"


def test_a_listener_at_all_addresses_needs_an_advertised_one() -> None:
    data = network(plain_links=True)
    data["brokers"][1] |= {"peers": "[::]:7002", "mqtt": "0.0.0.0:1883"}
    assert hints(parse_network(data)) == [
        "brokers[1].peers: other brokers connect to [::]:7002, which is no place elsewhere; "
        "say in brokers[1].public where it is",
        "brokers[1].mqtt: no client is sent to 0.0.0.0:1883, which is no place elsewhere; "
        "say in brokers[1].public where it is",
    ]
    data["brokers"][1]["public"] = {"peers": "b2:7002", "mqtt": "b2.example.org:1883"}
    read = parse_network(data)
    assert hints(read) == []
    second = read.broker("B2")
    assert [second.reached_at(key) for key in ("peers", "mqtt", "wss")] == [
        "b2:7002",
        "b2.example.org:1883",
        "",
    ]
    # A single broker redirects no one.
    assert hints(parse_network(broker(mqtt="0.0.0.0:1883"))) == []


def test_the_example_has_no_problems() -> None:
    example = Path(__file__).parents[2] / "examples" / "live" / "network.toml"
    assert problems(load_network(example)) == []
