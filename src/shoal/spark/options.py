"""The options of the data source `shoal`, read and checked before a broker is asked."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from shoal.language import FilterSyntaxError
from shoal.log.errors import LogError
from shoal.log.instants import instant_us
from shoal.log.remote import PATIENCE_S, LogLogin, RemoteLog, open_logs
from shoal.log.selections import ALL_TOPICS, RecordSelection
from shoal.matching.topics.filters import TopicError

PARTITION_BYTES = 16 * 2**20
EARLIEST, LATEST = "earliest", "latest"
Offsets = dict[str, int]
_KNOWN = {
    "network", "topics", "where", "attributes", "startingoffsets", "endingoffsets", "reader",
    "maxrowspertrigger", "maxbytespertrigger", "failondataloss", "missingbrokers", "wrongtypes",
    "username", "password", "authority", "servername", "partitionbytes", "patience",
}  # fmt: skip


class OptionError(ValueError):
    """An option of the data source cannot be used; the text names it."""


class SourceOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options; Spark gives them as texts, with names in any case.

    network            a network file that the driver can read, or the address of one log
    topics             topic filters with commas between them; all
    where              a content filter, which the brokers evaluate
    attributes         columns of attributes, as DDL: "dep_delay DOUBLE, carrier STRING"
    wrong_types        a value of another type than its column: "null", or "fail"
    starting_offsets   earliest, latest, a time (2026-11-30T08:00, UTC), or JSON: {"B1": 7}
    ending_offsets     of a batch: likewise
    reader             a stream's name at the brokers, which keep what it has not read
    max_rows           rows of one batch of a stream, at all brokers together; 0: all there are
    max_bytes          likewise their bytes, roughly
    fails_on_loss      records that retention has deleted fail the query; else it goes on after them
    waits_for_brokers  a stream waits for a broker that does not answer; else it fails
    patience_s         so long a task waits for a broker that does not answer
    partition_bytes    bytes of a broker's log that one task reads, roughly
    """

    network: str
    topics: tuple[str, ...] = (ALL_TOPICS,)
    where: str = ""
    attributes: str = ""
    wrong_types: str = "null"
    starting_offsets: str = EARLIEST
    ending_offsets: str = LATEST
    reader: str = ""
    max_rows: int = 0
    max_bytes: int = 0
    fails_on_loss: bool = True
    waits_for_brokers: bool = True
    patience_s: float = PATIENCE_S
    partition_bytes: int = PARTITION_BYTES
    login: LogLogin = LogLogin()

    def logs(self) -> dict[str, RemoteLog]:
        """The logs of all brokers; LogError where none answers."""
        found = {}
        for name, log in open_logs(self.network, self.login).items():
            if not isinstance(log, RemoteLog):
                raise LogError(
                    f"option network: {self.network} is a folder, which tasks elsewhere cannot "
                    "read; name the network file"
                )
            found[name] = log
        return found


def read_options(given: Mapping[str, str]) -> SourceOptions:
    """Read the options of a query; OptionError names one that is unknown or wrong."""
    texts = {name.lower(): text for name, text in given.items()}
    # Spark puts a table's path among the options of `load(path)`.
    network = texts.pop("path", None) or texts.get("network", "")
    if not network:
        raise OptionError('option network: name the network file, or "http://host:port" of a log')
    if unknown := sorted(set(texts) - _KNOWN):
        raise OptionError(f"option {unknown[0]}: unknown; there are {', '.join(sorted(_KNOWN))}")
    topics = tuple(each.strip() for each in texts.get("topics", ALL_TOPICS).split(","))
    where = texts.get("where", "")
    try:
        RecordSelection(topics, where)
    except TopicError as error:
        raise OptionError(f"option topics: {error}") from None
    except FilterSyntaxError as error:
        raise OptionError(f"option where: {error}") from None
    starting, ending = texts.get("startingoffsets", EARLIEST), texts.get("endingoffsets", LATEST)
    check_offsets("startingOffsets", starting)
    check_offsets("endingOffsets", ending)
    return SourceOptions(
        network=network,
        topics=topics,
        where=where,
        attributes=texts.get("attributes", ""),
        wrong_types=_choice(texts, "wrongTypes", ("null", "fail")),
        starting_offsets=starting,
        ending_offsets=ending,
        reader=texts.get("reader", ""),
        max_rows=_number(texts, "maxRowsPerTrigger"),
        max_bytes=_number(texts, "maxBytesPerTrigger"),
        fails_on_loss=_choice(texts, "failOnDataLoss", ("true", "false")) == "true",
        waits_for_brokers=_choice(texts, "missingBrokers", ("wait", "fail")) == "wait",
        patience_s=_number(texts, "patience", int(PATIENCE_S)),
        partition_bytes=_number(texts, "partitionBytes") or PARTITION_BYTES,
        login=LogLogin(
            texts.get("username", ""),
            texts.get("password", ""),
            texts.get("authority", ""),
            texts.get("servername", ""),
        ),
    )


def check_offsets(option: str, text: str) -> None:
    """SourceError for offsets that are neither a word, a time, nor JSON."""
    if text not in (EARLIEST, LATEST) and offsets_in(text) is None:
        time_in(option, text)


def offsets_in(text: str) -> Offsets | None:
    """Offsets by broker, if the text is JSON."""
    try:
        found = json.loads(text)
    except ValueError:
        return None
    if not isinstance(found, dict):
        return None
    offsets = {str(name): each for name, each in found.items() if type(each) is int and each >= 0}
    return offsets if len(offsets) == len(found) else None


def time_in(option: str, text: str) -> int:
    """A time in µs; OptionError if it is none."""
    try:
        return instant_us(text)
    except ValueError:
        raise OptionError(
            f"option {option}: {text[:80]!r}: write earliest, latest, a time such as "
            '2026-11-30T08:00, or JSON such as {"B1": 7}'
        ) from None


def _number(texts: Mapping[str, str], option: str, usual: int = 0) -> int:
    text = texts.get(option.lower(), str(usual))
    try:
        number = int(text)
    except ValueError:
        number = -1
    if number < 0:
        raise OptionError(f"option {option}: {text!r} is no whole number")
    return number


def _choice(texts: Mapping[str, str], option: str, choices: Sequence[str]) -> str:
    text: Any = texts.get(option.lower(), choices[0]).lower()
    if text not in choices:
        raise OptionError(f"option {option}: {text!r}: use {' or '.join(choices)}")
    return str(text)
