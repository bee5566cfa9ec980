"""A recording is a table also if it is empty, and names what it cannot record."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from shoal.client import Message
from shoal.experiments.live.recorded_network import NetworkReport, write_network
from shoal.experiments.live.recording import Recorder
from shoal.frames import match_frame
from shoal.frames.mixed_columns import plain_value
from shoal.language import format_filter, parse
from shoal.log.records import LogRecord
from shoal.model import Value
from shoal.mqtt.content import attributes_of
from shoal.mqtt.front_end.network import network_filter
from shoal.mqtt.messages import PublishedMessage as Sent


def test_an_hour_without_publications_is_a_table_without_rows(tmp_path: Path) -> None:
    Recorder().write(tmp_path)
    table = pq.read_table(tmp_path / "publications.parquet")
    assert table.num_rows == 0
    assert [field.name for field in table.schema.field("attributes").type] == ["mqtt_topic"]


def recorded(tmp_path: Path, *sent: tuple[str, bytes]) -> list[dict[str, Value]]:
    """The recorded attributes of each message."""
    recorder = Recorder()
    for topic, payload in sent:
        recorder.take(Message(topic, payload, 0, False, {}, None), 0)
    recorder.write(tmp_path)
    rows = pq.read_table(tmp_path / "publications.parquet").column("attributes").to_pylist()
    return [
        {name: each for name, each in row.items() if each is not None and name[:5] != "mqtt_"}
        for row in rows
    ]


def test_plain_values_of_every_type_have_columns_of_their_own(tmp_path: Path) -> None:
    payloads = {b"21.5": "payload", b"ON": "payload_text", b"22": "payload",
                b"true": "payload_boolean"}  # fmt: skip
    rows = recorded(tmp_path, *((f"home/{p!r}", p) for p in payloads))
    assert [[*row] for row in rows] == [[name] for name in payloads.values()]
    assert [*rows[0].values(), *rows[1].values(), *rows[3].values()] == [21.5, "ON", True]


def test_a_recording_has_the_attributes_that_brokers_have(tmp_path: Path) -> None:
    payloads = [
        b'{"AM2301": {"Temperature": 21.5}, "temps": [1]}', b'{"t": NaN, "u": 1}',
        b'\xef\xbb\xbf{"t": 1e400, "u": 1}\0', b"21.5",
    ]  # fmt: skip
    rows = recorded(tmp_path, *(("t", payload) for payload in payloads))
    live = [attributes_of(Sent("t", payload, "", 0)) for payload in payloads]
    assert rows == [
        {n: each for n, each in row.items() if n[0] != "$" or n.startswith("$list.")}
        for row in live
    ]
    first = {"AM2301.Temperature": 21.5, "$list.temps": "[1]"}
    assert rows[:3] == [first, {"u": 1}, {"u": 1}]


def test_each_value_keeps_its_type_whatever_others_have(tmp_path: Path) -> None:
    values = (2**53 + 1, 0.5, '"ON"', "true", 7)
    rows = recorded(tmp_path, *(("t", f'{{"v": {v}}}'.encode()) for v in values))
    assert [plain_value(row["v"]) for row in rows] == [2**53 + 1, 0.5, "ON", True, 7]
    subscriptions = {"big": f"v = {2**53 + 1}", "text": "v = 'ON'", "true": "v", "small": "v < 8"}
    wanted = pa.table({"id": [*subscriptions], "filter": [*subscriptions.values()]})
    publications = pq.read_table(tmp_path / "publications.parquet")
    pairs = [
        (row["sequence"], row["subscription"])
        for row in match_frame(publications, wanted).to_pylist()
    ]
    assert pairs == [(0, "big"), (1, "small"), (2, "text"), (3, "true"), (4, "small")]


def test_integers_among_fractions_are_doubles_if_these_are_the_same(tmp_path: Path) -> None:
    rows = recorded(tmp_path, *(("t", b'{"v": %s}' % v) for v in (b"1", b"0.5")))
    assert [type(row["v"]) for row in rows] == [float, float]


def test_a_filter_too_deep_to_write_does_not_affect_others(
    tmp_path: Path,
) -> None:
    deep = "NOT (n = 1 AND " * 50 + "n NOT BETWEEN 7 AND 8" + ")" * 50
    rows = [
        {
            "client": name,
            "broker": "B1",
            "topic_filter": "a/#",
            "filter": format_filter(network_filter("a/#", parse(text))),
        }
        for name, text in (("odd", deep), ("plain", "n > 1"))
    ]
    report = NetworkReport({"B1": 12.5}, [], rows, {})
    count, [said] = write_network(tmp_path, report)
    table = pq.read_table(tmp_path / "subscriptions.parquet")
    assert (count, table.column("client").to_pylist()) == (1, ["plain"])
    assert said.startswith(
        "a subscription is left out, odd's to a/#: parentheses and NOT nest deeper than"
    )


def test_the_shorter_of_two_measurements_is_the_round_trip(tmp_path: Path) -> None:
    measured = {"B1": {"B2": 1_500, "B9": 1}, "B2": {"B1": 900}, "B3": {"B2": 70}}
    report = NetworkReport(dict.fromkeys(("B1", "B2", "B3"), None), [], [], measured)
    _, said = write_network(tmp_path, report)
    assert (tmp_path / "round_trips.csv").read_text() == "from,to,ms\nB1,B2,0.9\nB2,B3,0.07\n"
    assert said == ["the round trip between B1 and B3 is not known"]
    assert pq.read_table(tmp_path / "brokers.parquet")["service_us"].to_pylist() == [None] * 3


def test_a_publisher_is_where_most_of_its_publications_entered(tmp_path: Path) -> None:
    recorder = Recorder(levels=1)
    entered = (("a/1", "B1"), ("a/2", "B2"), ("b/1", "B1"), ("a/1", "B2"), ("b/2", "B3"))
    for number, (topic, broker) in enumerate(entered):
        recorder.take_logged(LogRecord(number, f"client{number}", 0, topic, b"12"), broker)
    recorder.write(tmp_path)
    found = pq.read_table(tmp_path / "publishers.parquet").to_pylist()
    assert found == [{"publisher": "a", "broker": "B2"}, {"publisher": "b", "broker": "B1"}]
    table = pq.read_table(tmp_path / "publications.parquet")
    assert table["client"].to_pylist() == [f"client{number}" for number in range(5)]
    assert table["payload_bytes"].to_pylist() == [2] * 5
