"""The options of the data source `shoal` as a sink, and rows as publications."""

from __future__ import annotations

import contextlib
import datetime
import decimal
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec
from pyspark.sql.types import BinaryType, StringType, StructType

from shoal.client.endpoint import Tls, read_endpoint
from shoal.log.errors import LogError
from shoal.log.remote import (
    NO_LOGIN,
    PATIENCE_S,
    LogAnswerError,
    LogLogin,
    RemoteLog,
    listeners_in,
    open_logs,
    patiently,
)
from shoal.log.staging.attempts import AttemptId
from shoal.spark.options import OptionError

KEY = "key"
Delivery = Literal["exactly_once", "at_least_once"]
_KNOWN = {
    "network", "brokers", "topic", "topiccolumn", "payloadcolumn", "keycolumn", "qos", "retain",
    "username", "password", "authority", "servername", "checkpointlocation", "delivery", "writeid",
    "batch", "patience",
}  # fmt: skip
_LOGIN = ("username", "password", "authority", "servername")


class SinkOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options; Spark gives them as texts, with names in any case.

    network          a network file that the driver can read, whose brokers take the rows
    brokers          instead: addresses for MQTT clients, with commas between them
    delivery         exactly_once, by the brokers' logs of the network, or at_least_once, at once;
                     the first unless `brokers` are given
    write_id         a table's write that is repeated under this name publishes nothing more
    batch            likewise the number of the batch in foreachBatch; a later one follows it
    patience_s       how long a broker that does not answer is waited for
    topic            the topic of all rows
    topic_column     instead: the column with each row's topic; `topic`
    payload_column   the column with the payload, text or bytes; without, the payload is a JSON
                     object of all other columns, whose fields filters see
    key_column       a column that identifies a row
    qos, retain      of all publications
    """

    brokers: tuple[str, ...] = ()
    logs: dict[str, str] = {}
    delivery: Delivery = "at_least_once"
    write_id: str = ""
    batch: int = 0
    patience_s: float = PATIENCE_S
    login: LogLogin = NO_LOGIN
    topic: str = ""
    topic_column: str = "topic"
    payload_column: str = ""
    key_column: str = ""
    qos: int = 1
    retain: bool = False
    username: str | None = None
    password: str | None = None
    tls: Tls = Tls()


def read_sink_options(given: Mapping[str, str], schema: StructType) -> SinkOptions:
    """Read the options of a writer; OptionError names one that is unknown or wrong."""
    texts = {name.lower(): text for name, text in given.items()}
    network = texts.pop("path", None) or texts.get("network", "")
    if unknown := sorted(set(texts) - _KNOWN):
        raise OptionError(f"option {unknown[0]}: unknown; there are {', '.join(sorted(_KNOWN))}")
    listed = [each.strip() for each in texts.get("brokers", "").split(",") if each.strip()]
    if not (listed or network):
        raise OptionError("option brokers: name their addresses, or the network file (network)")
    delivery = texts.get("delivery", "at_least_once" if listed else "exactly_once").lower()
    if delivery not in ("exactly_once", "at_least_once"):
        raise OptionError(f"option delivery: {delivery!r}: use exactly_once or at_least_once")
    login = LogLogin(*(texts.get(key, "") for key in _LOGIN))
    patience_s = _whole(texts, "patience", int(PATIENCE_S))
    brokers, logs = list[str](), dict[str, str]()
    if delivery == "exactly_once":
        logs = staging_brokers(network, login, patience_s)
    else:
        brokers = _checked(listed or client_addresses(Path(network)))
    qos = texts.get("qos", "1")
    if qos not in ("0", "1", "2"):
        raise OptionError(f"option qos: {qos!r} is not 0, 1 or 2")
    options = SinkOptions(
        brokers=tuple(brokers),
        logs=logs,
        delivery="exactly_once" if delivery == "exactly_once" else "at_least_once",
        write_id=_name(texts.get("writeid", "")),
        batch=_whole(texts, "batch", 0),
        patience_s=patience_s,
        login=login,
        topic=texts.get("topic", ""),
        topic_column=texts.get("topiccolumn", "topic"),
        payload_column=texts.get("payloadcolumn", ""),
        key_column=texts.get("keycolumn", ""),
        qos=int(qos),
        retain=texts.get("retain", "false").lower() == "true",
        username=texts.get("username"),
        password=texts.get("password"),
        tls=Tls(authority=texts.get("authority", ""), server_name=texts.get("servername", "")),
    )
    _check_columns(options, schema)
    return options


def _checked(brokers: list[str]) -> list[str]:
    for each in brokers:
        try:
            read_endpoint(each)
        except ValueError as error:
            raise OptionError(f"option brokers: {error}") from None
    return brokers


def _name(text: str) -> str:
    """A write's name; OptionError for one that brokers do not take."""
    if text:
        try:
            AttemptId(text, 0, "a").check()
        except ValueError as error:
            raise OptionError(f"option writeId: {error}") from None
    return text


def _whole(texts: Mapping[str, str], option: str, default: int) -> int:
    text = texts.get(option, str(default))
    if not text.isdecimal():
        raise OptionError(f"option {option}: {text!r} is no whole number")
    return int(text)


def staging_brokers(
    network: str, login: LogLogin, patience_s: float = PATIENCE_S
) -> dict[str, str]:
    """Addresses of the logs of all brokers that are in the network; OptionError where none is.

    A broker that has left is in the network file still, and the others do not name it. While no
    broker answers, they may be starting again.
    """
    if not network:
        raise OptionError(
            "option delivery: exactly_once needs the network file (network), whose brokers log; or "
            "say at_least_once"
        )
    try:
        logs = patiently(lambda: open_logs(network, login), patience_s)
    except LogError as error:
        raise OptionError(f"option network: {error}; or say delivery = at_least_once") from None
    found, present = dict[str, str](), set[str]()
    for name, log in logs.items():
        if isinstance(log, RemoteLog):
            found[name] = log.url
            with contextlib.suppress(LogAnswerError):
                present |= {name, *log.bounds().brokers}
    if not found:
        raise OptionError(f"option network: {network} is a folder; name the network file")
    return {name: url for name, url in found.items() if name in present}


def client_addresses(path: Path) -> list[str]:
    """Addresses of a network file's brokers for MQTT clients; OptionError for a bad file."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise OptionError(f"option network: {path}: {error}") from None
    plain, over_tls = (listeners_in(data, key) for key in ("mqtt", "mqtts"))
    found = {name: f"mqtts://{where}" for name, where in over_tls.items()} | plain
    names = (each["name"] for each in data.get("brokers", ()))
    return [found[name] for name in names if name in found]


def _check_columns(options: SinkOptions, schema: StructType) -> None:
    if not options.topic:
        _check(schema, "topicColumn", options.topic_column, (StringType,))
    if options.payload_column:
        _check(schema, "payloadColumn", options.payload_column, (StringType, BinaryType))
    if options.key_column:
        _check(schema, "keyColumn", options.key_column, None)


def _check(schema: StructType, option: str, name: str, kinds: tuple[type, ...] | None) -> None:
    if name not in schema.names:
        raise OptionError(
            f"option {option}: there is no column {name!r}; there are {', '.join(schema.names)}"
        )
    if kinds is not None and not isinstance(schema[name].dataType, kinds):
        kind = schema[name].dataType.simpleString()
        raise OptionError(f"option {option}: column {name} is {kind}, not text")


def topic_of(row: Mapping[str, Any], options: SinkOptions) -> str:
    """The topic of a row."""
    return options.topic or row[options.topic_column] or ""


def attributes_of(
    row: Mapping[str, Any], options: SinkOptions
) -> dict[str, bool | int | float | str] | None:
    """The attributes of a row besides its payload's: its key, if it has one."""
    key = row[options.key_column] if options.key_column else None
    return None if key is None else {KEY: _key(key)}


def _key(value: Any) -> bool | int | float | str:
    return value if isinstance(value, bool | int | float | str) else str(value)


def payload_of(row: Mapping[str, Any], options: SinkOptions) -> tuple[bytes, str | None]:
    """The payload of a row, and its content type.

    >>> payload_of({"topic": "t", "x": 1, "y": None}, SinkOptions(brokers=("b",)))
    (b'{"x":1}', 'application/json')
    """
    if options.payload_column:
        value = row[options.payload_column]
        return (value.encode() if isinstance(value, str) else value or b""), None
    own = {options.topic_column} if not options.topic else set[str]()
    fields = {
        name: _json(value)
        for name, value in row.items()
        if name not in own and name != options.key_column and value is not None
    }
    return msgspec.json.encode(fields), "application/json"


def _json(value: Any) -> Any:
    """A value of a column as JSON has it: times as texts, decimals as numbers."""
    match value:
        case decimal.Decimal():
            return int(value) if value == value.to_integral_value() else float(value)
        case datetime.datetime() | datetime.date():
            return value.isoformat()
        case Mapping():
            return {str(name): _json(each) for name, each in value.items()}
        case bytes():
            return value.hex()
        case str():
            return value
        case Sequence():
            return [_json(each) for each in value]
    return value
