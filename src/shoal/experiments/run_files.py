"""Files of the simulator: a workload's tables are read; the tables of a run and their columns.

A table is a Parquet file, or a folder of Parquet part files as Spark writes them.  The small
tables become rows; the events stay columns and are handed out one by one in the order of the
replay.  `run_folder.py` writes a run's tables.

>>> RUN_TABLES["migrations"].names
['publisher', 'source', 'target', 'path_hops', 'paused_us', 'resumed_us']
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec
import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]  # pyarrow ships no types
import pyarrow.compute as pc  # type: ignore[import-untyped]  # as above
import pyarrow.csv as pa_csv  # type: ignore[import-untyped]  # as above
import pyarrow.dataset as ds  # type: ignore[import-untyped]  # as above

from shoal.frames.mixed_columns import is_mixed, plain_value
from shoal.model import AdvertisementId, BrokerId, ClientId, SubscriptionId, Value
from shoal.overlays.trace_rows import OverlayLink
from shoal.overlays.trace_tables import TRACE_TABLES
from shoal.runtime.operations.trace_files import schema_of

Row = TypeVar("Row", bound=msgspec.Struct)

# Events turned into Python at once; a few megabytes.
EVENT_BATCH_ROWS = 8_192


class RunFileError(ValueError):
    """A table that is missing, misshapen or contradicts another one; names file and column."""


class TableRow(msgspec.Struct, frozen=True, kw_only=True):
    """A row of a small table; fields are columns, those with a default may be missing or null."""


class BrokerRow(TableRow, frozen=True, kw_only=True):
    broker: BrokerId
    latitude: float | None = None
    longitude: float | None = None
    name: str | None = None
    # The place in the order of brokers; without this column, the order of the rows.
    rank: int = 0


class PublisherRow(TableRow, frozen=True, kw_only=True):
    publisher: ClientId
    advertisement_id: AdvertisementId
    advertisement: str
    broker: BrokerId
    latitude: float | None = None
    longitude: float | None = None
    # The broker beside which the publisher stands; without one, its first broker.
    place: BrokerId = ""


class SubscriptionRow(TableRow, frozen=True, kw_only=True):
    subscription: SubscriptionId
    client: ClientId
    broker: BrokerId
    filter: str
    # The broker beside which the subscriber stands; without one, the broker it subscribes at.
    place: BrokerId = ""
    # When it comes and goes, in the replay's time; without one, it is there from the beginning,
    # and to the end.
    from_us: int | None = None
    to_us: int | None = None
    # Texts of `$every` and `$changed`: the subscriber needs only some publications.
    every: str = ""
    changed: str = ""

    def waits_for(self, replay_us: int) -> bool:
        """Return whether it gets publications of that time, if they match."""
        return (self.from_us is None or self.from_us <= replay_us) and (
            self.to_us is None or replay_us < self.to_us
        )


class RunEvent(NamedTuple):
    """One publication to replay; attributes that are null in the table are missing here."""

    replay_us: int
    publisher: ClientId
    sequence: int
    time_us: int
    attributes: dict[str, Value]


class RunEvents:
    """The events in replay order: by time, then publisher, then sequence."""

    def __init__(self, table: Any) -> None:
        order = [(key, "ascending") for key in ("replay_us", "publisher", "sequence")]
        self._table = table.sort_by(order)

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def before(self, replay_us: int) -> RunEvents:
        """Those of them that are earlier in the replay."""
        return RunEvents(self._table.filter(ds.field("replay_us") < replay_us))

    def at_speed(self, speed: float) -> RunEvents:
        """The same events, replayed so many times as fast."""
        replay_us = pc.cast(
            pc.divide(pc.cast(self._table["replay_us"], "double"), speed), "int64", safe=False
        )
        return self.at_times(replay_us)

    @property
    def times_us(self) -> Any:
        """The replay times in their order, an array of integers."""
        return self._table["replay_us"].to_numpy()

    def at_times(self, replay_us: Any) -> RunEvents:
        """The same events at other times, listed in the order of these events."""
        place = self._table.column_names.index("replay_us")
        times = pa.array(replay_us, pa.int64()) if isinstance(replay_us, np.ndarray) else replay_us
        return RunEvents(self._table.set_column(place, "replay_us", times))

    @property
    def last_replay_us(self) -> int:
        """The replay time of the last event; 0 when there is none."""
        return int(self._table["replay_us"][-1].as_py()) if len(self) else 0

    @property
    def publishers(self) -> list[ClientId]:
        """The publishers that have events, sorted."""
        return sorted(self._table["publisher"].unique().to_pylist())

    def __iter__(self) -> Iterator[RunEvent]:
        for batch in self._table.to_batches(max_chunksize=EVENT_BATCH_ROWS):
            struct = batch.column("attributes")
            names = [field.name for field in struct.type]
            columns = [column.to_pylist() for column in struct.flatten()]
            rows = zip(*columns, strict=True) if columns else iter([()] * batch.num_rows)
            keys = [batch.column(name).to_pylist() for name in EVENT_KEYS]
            for replay_us, publisher, sequence, time_us, values in zip(*keys, rows, strict=True):
                attributes = {
                    name: plain_value(value)
                    for name, value in zip(names, values, strict=True)
                    if value is not None
                }
                yield RunEvent(replay_us, publisher, sequence, time_us, attributes)


EVENT_KEYS = ("replay_us", "publisher", "sequence", "time_us")


class WorkloadFiles(NamedTuple):
    """Output of `shoal workload`; `links` is None if it made none."""

    brokers: list[BrokerRow]
    publishers: list[PublisherRow]
    subscriptions: list[SubscriptionRow]
    events: RunEvents
    links: list[OverlayLink] | None
    # Number of subscriptions that were derived from publications, and not given by the user.
    derived: int = 0

    def at_speed(self, speed: float) -> WorkloadFiles:
        """The same, replayed so many times as fast."""

        def sooner(time_us: int | None) -> int | None:
            return None if time_us is None else int(time_us / speed)

        subscriptions = [
            msgspec.structs.replace(row, from_us=sooner(row.from_us), to_us=sooner(row.to_us))
            for row in self.subscriptions
        ]
        return self._replace(subscriptions=subscriptions, events=self.events.at_speed(speed))


def read_workload(path: Path) -> WorkloadFiles:
    """The workload in a folder, checked: known brokers and publishers, nothing named twice.

    Brokers come in the order of their rank, all others by identifier.
    """
    if not path.is_dir():
        raise RunFileError(f"{path}: no such folder; make a workload with `shoal workload`")
    brokers = read_rows(path / "brokers.parquet", BrokerRow)
    brokers.sort(key=lambda row: row.rank)
    publishers = read_rows(path / "publishers.parquet", PublisherRow)
    publishers.sort(key=lambda row: (row.publisher, row.advertisement_id))
    subscriptions = read_rows(path / "subscriptions.parquet", SubscriptionRow)
    subscriptions.sort(key=lambda row: row.subscription)
    events = RunEvents(_read_events(_existing(path, "events")))
    links = path / "links.parquet"
    workload = WorkloadFiles(
        brokers=brokers,
        publishers=publishers,
        subscriptions=subscriptions,
        events=events,
        links=read_rows(links, OverlayLink) if links.exists() else None,
        derived=_count_derived(path / "subscriptions.parquet"),
    )
    _check_workload(path, workload)
    return workload


def _count_derived(path: Path) -> int:
    """Return how many subscriptions have the class of selectivity that they were derived for."""
    dataset = _dataset(path)
    if "rate_class" not in dataset.schema.names:
        return 0
    column = dataset.to_table(columns=["rate_class"])["rate_class"]
    return int(len(column) - column.null_count)


def read_rows(path: Path, kind: type[Row]) -> list[Row]:
    """A small table as rows of `kind`, in file order; RunFileError names the column."""
    fields = {field.name: field for field in msgspec.structs.fields(kind)}
    dataset = _dataset(path)
    present = [name for name in fields if name in dataset.schema.names]
    lacking = [name for name, field in fields.items() if field.required and name not in present]
    if lacking:
        raise RunFileError(f"{path}: column {lacking[0]!r} is missing")
    rows = []
    for number, row in enumerate(dataset.to_table(columns=present).to_pylist()):
        try:
            given = {name: value for name, value in row.items() if value is not None}
            rows.append(msgspec.convert(given, kind))
        except msgspec.ValidationError as error:
            raise RunFileError(f"{path}: row {number}: {error}") from None
    return rows


def read_columns(
    path: Path, names: Sequence[str], *others: Sequence[str], numbers: Collection[str] = ()
) -> list[list[Any]]:
    """Columns of a Parquet or CSV table as lists; RunFileError when one is missing.

    The columns may have `others` of their names instead. A CSV file's columns are texts, so that a
    broker `01` keeps its name, but for `numbers`.
    """
    texts = {*names, *chain.from_iterable(others)} - {*numbers}
    dataset = _dataset(path, _csv_format(texts) if path.suffix == ".csv" else "parquet")
    names = next((each for each in others if {*each} <= {*dataset.schema.names}), names)
    for name in names:
        if name not in dataset.schema.names:
            found = ", ".join(dataset.schema.names)
            raise RunFileError(f"{path}: column {name!r} is missing; found: {found}")
    table = dataset.to_table(columns=list(names))
    return [table[name].to_pylist() for name in names]


def _existing(path: Path, name: str) -> Path:
    """`name`, or `name.parquet`, whichever there is."""
    plain, parquet = path / name, path / f"{name}.parquet"
    return parquet if parquet.exists() and not plain.exists() else plain


def _csv_format(texts: Iterable[str]) -> Any:
    """CSV with these columns as texts; the types of all others follow from their values."""
    options = pa_csv.ConvertOptions(column_types=dict.fromkeys(texts, pa.string()))
    return ds.CsvFileFormat(convert_options=options)


def _dataset(path: Path, form: Any = "parquet") -> Any:
    if not path.exists():
        made = "; has `shoal workload` made that folder, or, of a truth, `shoal truth`?"
        raise RunFileError(f"{path}: no such table{made if form == 'parquet' else ''}")
    try:
        # A folder written by Spark also holds _SUCCESS and checksums; names with "_" or "." in
        # front are left out by default.
        return ds.dataset(path, format=form)
    except (pa.ArrowException, OSError) as error:
        kind = form if form == "parquet" else "CSV"
        raise RunFileError(f"{path}: not a {kind} table: {error}") from None


def _read_events(path: Path) -> Any:
    dataset = _dataset(path)
    for name in (*EVENT_KEYS, "attributes"):
        if name not in dataset.schema.names:
            raise RunFileError(f"{path}: column {name!r} is missing")
        kind = dataset.schema.field(name).type
        if name in ("replay_us", "sequence", "time_us") and not pa.types.is_integer(kind):
            raise RunFileError(f"{path}: column {name!r} is {kind}, not an integer")
    attributes = dataset.schema.field("attributes").type
    if not pa.types.is_struct(attributes):
        raise RunFileError(f"{path}: column 'attributes' is {attributes}, not a struct")
    for field in attributes:
        kinds = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_null)
        text = pa.types.is_string(field.type) or pa.types.is_large_string(field.type)
        is_plain = text or any(kind(field.type) for kind in kinds)
        if not (is_plain or is_mixed(field.type)):
            raise RunFileError(
                f"{path}: attribute {field.name!r} is {field.type}; "
                "use strings, integers, doubles or booleans"
            )
    table = dataset.to_table(columns=[*EVENT_KEYS, "attributes"])
    for name in (*EVENT_KEYS, "attributes"):
        if table[name].null_count:
            raise RunFileError(f"{path}: column {name!r} has nulls")
    return table


def _check_workload(path: Path, workload: WorkloadFiles) -> None:
    brokers = [row.broker for row in workload.brokers]
    subscriptions = [row.subscription for row in workload.subscriptions]
    advertisements = [row.advertisement_id for row in workload.publishers]
    for table, names in (
        ("brokers", brokers),
        ("subscriptions", subscriptions),
        ("publishers", advertisements),
    ):
        known = set()
        for name in names:
            if name in known:
                raise RunFileError(f"{path / table}.parquet: {name!r} is listed twice")
            known.add(name)
    if not brokers:
        raise RunFileError(f"{path / 'brokers.parquet'}: no brokers")
    known = set(brokers)
    attached = [
        ("publishers", row.publisher, broker)
        for row in workload.publishers
        for broker in (row.broker, row.place or row.broker)
    ]
    attached += [
        ("subscriptions", row.subscription, broker)
        for row in workload.subscriptions
        for broker in (row.broker, row.place or row.broker)
    ]
    for table, name, broker in attached:
        if broker not in known:
            raise RunFileError(f"{path / table}.parquet: {name!r} is at unknown broker {broker!r}")
    publishers: dict[ClientId, BrokerId] = {}
    for row in workload.publishers:
        first = publishers.setdefault(row.publisher, row.broker)
        if first != row.broker:
            raise RunFileError(
                f"{path / 'publishers'}.parquet: {row.publisher!r} is at {first!r} "
                f"and at {row.broker!r}"
            )
    for publisher in workload.events.publishers:
        if publisher not in publishers:
            raise RunFileError(f"{path / 'events'}: unknown publisher {publisher!r}")


# Tables of a run; its refusals are counted.
RUN_TABLES: Mapping[str, Any] = {
    name: schema_of(columns) for name, columns in TRACE_TABLES.items() if name != "refusals"
}
