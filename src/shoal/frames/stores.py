"""Places that Arrow reads and writes without Spark: object stores, and tables of lakes.

| place | example | package |
| --- | --- | --- |
| a URI of a store | `s3://lake/flights`, `s3a://…`, `gs://…`, `abfss://…`, `hdfs://…` | PyArrow |
| a Delta table | `delta+s3://lake/pairs`, `delta+file:///data/pairs` | deltalake |
| an Iceberg table | `lake.db.pairs`, of a catalog that PyIceberg knows | pyiceberg |

A command works on a copy in a folder of this machine: `fetch` copies a place there, `put` copies a
folder to a place. A folder of several tables is a folder of the store, a folder of Delta tables, or
a namespace of the catalog. A URI or path with a Delta log is read as a Delta table, because its
Parquet files alone would have deleted rows as well.

A table of Delta or Iceberg appears whole. A store has no such promise: its objects appear one after
the other, notes (`_ingest.json`) last, so a folder with a note is complete.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types
import pyarrow.dataset as pds  # type: ignore[import-untyped]  # as above
import pyarrow.fs as pfs  # type: ignore[import-untyped]  # as above
import pyarrow.parquet as pq  # type: ignore[import-untyped]  # as above

from shoal.frames.errors import TableError
from shoal.frames.folders import EVENTS
from shoal.frames.table_places import is_uri, last_name

DELTA = "delta+"
_DELTA_LOG = "_delta_log"
# A file of each run of the simulator, beside its tables.
_RUN = "checks.json"
# Arrow's names of the schemes that Hadoop and others write.
_SCHEMES = {"s3": "s3", "s3a": "s3", "gs": "gs", "gcs": "gs", "abfs": "abfs", "abfss": "abfss",
            "hdfs": "hdfs", "viewfs": "viewfs"}  # fmt: skip

# Packages whose errors are about places: those of tables, of Iceberg's catalogs, of AWS.
_PACKAGES = ("deltalake", "_internal", "pyiceberg", "sqlalchemy", "botocore")


def is_store(text: str) -> bool:
    """Return whether `fetch` and `put` know this kind of place.

    >>> is_store("s3a://lake/flights"), is_store("delta+file:///data/pairs"), is_store("pairs")
    (True, True, False)
    """
    if text.startswith(DELTA):
        return True
    if is_uri(text):
        return text.partition(":")[0].lower() in _SCHEMES
    with _explained(text):
        return _has_delta_log(text) or _iceberg(text) is not None


def fetch(text: str, folder: Path) -> Path:
    """Copy a place into `folder`, and return where the copy is; TableError if nothing is there."""
    target = Path(tempfile.mkdtemp(dir=folder)) / (last_name(text) or "table")
    with _explained(text):
        if (iceberg := _iceberg(text)) is not None:
            return _fetch_iceberg(*iceberg, target)
        if text.startswith(DELTA):
            return _fetch_delta(text.removeprefix(DELTA), target)
        system, path = _opened(text)
        kind = system.get_file_info(path).type
        if kind is pfs.FileType.NotFound:
            raise TableError(f"{text} does not exist")
        if kind is pfs.FileType.Directory:
            if system.get_file_info(f"{path}/{_DELTA_LOG}").type is not pfs.FileType.NotFound:
                return _fetch_delta(text, target)
            target.mkdir()
        pfs.copy_files(path, str(target), source_filesystem=system)
        return target


def check_free(text: str, *, overwrite: bool) -> None:
    """TableError for an output place that is taken, or where other files than tables are."""
    with _explained(text):
        if (iceberg := _iceberg(text)) is not None:
            catalog, name = iceberg
            is_there = _is_table(catalog, name) or bool(_tables_of(catalog, name))
            others = []
        else:
            system, path = _opened(text.removeprefix(DELTA))
            is_there = system.get_file_info(path).type is not pfs.FileType.NotFound
            within = pfs.FileSelector(path, allow_not_found=True)
            names = [each.base_name for each in system.get_file_info(within)] if is_there else []
            others = [each for each in names if not _is_of_table(each, text)]
            others = [] if _RUN in names else others
            if _DELTA_LOG in names and not text.startswith(DELTA):
                raise TableError(f"{text} is a Delta table; give {DELTA}{text}")
    if is_there and not overwrite:
        raise TableError(f"{text} exists already; give another place, or --overwrite")
    if others:
        raise TableError(f"{text} holds other files than tables; give another place")


def put(folder: Path, text: str, *, overwrite: bool = False) -> None:
    """Copy a folder of tables, or of the parts of one, to a place."""
    check_free(text, overwrite=overwrite)
    with _explained(text):
        if (iceberg := _iceberg(text)) is not None:
            _put_iceberg(folder, *iceberg)
            return
        system, path = _opened(text.removeprefix(DELTA))
        notes = [each for each in folder.iterdir() if each.is_file() and each.name.startswith("_")]
        if text.startswith(DELTA):
            _put_delta(folder, text.removeprefix(DELTA))
        else:
            if system.get_file_info(path).type is pfs.FileType.Directory:
                _clear(system, path)
            system.create_dir(path)
            for table in folder.iterdir():
                if table not in notes:
                    _copy(table, system, f"{path}/{table.name}")
        for note in notes:
            _copy(note, system, f"{path}/{note.name}")


def _clear(system: Any, path: str) -> None:
    """Remove everything in a folder of a store, notes first: one that stays has its tables."""
    for each in system.get_file_info(pfs.FileSelector(path)):
        if each.type is pfs.FileType.File and each.base_name.startswith("_"):
            system.delete_file(each.path)
    system.delete_dir_contents(path)


def _copy(source: Path, system: Any, target: str) -> None:
    pfs.copy_files(str(source), target, destination_filesystem=system)


def _is_of_table(name: str, text: str) -> bool:
    """Return whether a file or folder of this name may be part of the tables at a place."""
    is_own = name == EVENTS or name.endswith(".parquet") or name.startswith(("_", "."))
    return is_own or text.startswith(DELTA)


@contextlib.contextmanager
def _explained(text: str) -> Iterator[None]:
    """Turn the errors of stores and of the packages of tables into TableError."""
    try:
        yield
    except (TableError, ModuleNotFoundError):
        raise
    except (OSError, pa.ArrowException, ValueError) as error:
        raise TableError(f"{text}: {str(error).partition(chr(10))[0]}") from None
    except Exception as error:
        if type(error).__module__.partition(".")[0] not in _PACKAGES:
            raise
        raise TableError(f"{text}: {str(error).partition(chr(10))[0]}") from None


def _opened(text: str) -> tuple[Any, str]:
    """The file system of a URI, or of a path, and the path there."""
    if not is_uri(text):
        return pfs.LocalFileSystem(), str(Path(text).absolute())
    scheme, _, rest = text.partition(":")
    return pfs.FileSystem.from_uri(f"{_SCHEMES.get(scheme.lower(), scheme)}:{rest}")  # type: ignore[no-any-return]


def _has_delta_log(text: str) -> bool:
    return (Path(text) / _DELTA_LOG).is_dir()


def _fetch_delta(uri: str, target: Path) -> Path:
    from deltalake import DeltaTable  # type: ignore[import-not-found,unused-ignore]

    if DeltaTable.is_deltatable(uri):
        _write_parts(DeltaTable(uri).to_pyarrow_dataset().scanner().to_reader(), target)
        return target
    system, path = _opened(uri)
    found = system.get_file_info(pfs.FileSelector(path, allow_not_found=True))
    names = [each.base_name for each in found if each.type is pfs.FileType.Directory]
    tables = [name for name in names if DeltaTable.is_deltatable(f"{uri.rstrip('/')}/{name}")]
    if not tables:
        raise TableError(f"{DELTA}{uri}: there is no Delta table")
    for name in tables:
        _fetch_delta(f"{uri.rstrip('/')}/{name}", target / _folder_of(name))
    for each in found:
        if each.type is pfs.FileType.File:
            pfs.copy_files(each.path, str(target / each.base_name), source_filesystem=system)
    return target


def _put_delta(folder: Path, uri: str) -> None:
    from deltalake import write_deltalake

    for name, parts in _tables_in(folder):
        place = f"{uri.rstrip('/')}/{name}" if name else uri
        rows = pds.dataset(parts).scanner().to_reader()
        write_deltalake(place, rows, mode="overwrite", schema_mode="overwrite")


def _iceberg(text: str) -> tuple[Any, str] | None:
    """The catalog that a table's name begins with, and the rest; None if PyIceberg knows none."""
    first, dot, rest = text.partition(".")
    if not dot or is_uri(text) or os.sep in text or not first.isidentifier():
        return None
    try:
        from pyiceberg.catalog import load_catalog  # type: ignore[import-not-found,unused-ignore]
        from pyiceberg.utils.config import Config  # type: ignore[import-not-found,unused-ignore]
    except ModuleNotFoundError:
        return None
    return (load_catalog(first), rest) if Config().get_catalog_config(first) else None


def _is_table(catalog: Any, name: str) -> bool:
    # A name of one part is a namespace.
    return "." in name and bool(catalog.table_exists(name))


def _tables_of(catalog: Any, namespace: str) -> list[str]:
    if not catalog.namespace_exists(namespace):
        return []
    return [each[-1] for each in catalog.list_tables(namespace)]


def _fetch_iceberg(catalog: Any, name: str, target: Path) -> Path:
    if _is_table(catalog, name):
        _write_parts(catalog.load_table(name).scan().to_arrow_batch_reader(), target)
        return target
    tables = _tables_of(catalog, name)
    if not tables:
        raise TableError(f"{catalog.name}.{name}: the catalog has no such table")
    for table in tables:
        _fetch_iceberg(catalog, f"{name}.{table}", target / _folder_of(table))
    return target


def _put_iceberg(folder: Path, catalog: Any, name: str) -> None:
    for inner, parts in _tables_in(folder):
        table = f"{name}.{inner}" if inner else name
        if "." not in table:
            raise TableError(f"{catalog.name}.{table}: a schema; name a table in it")
        rows = pds.dataset(parts).to_table()
        catalog.create_namespace_if_not_exists(table.rpartition(".")[0])
        if catalog.table_exists(table):
            with catalog.load_table(table).transaction() as change:
                with change.update_schema(allow_incompatible_changes=True) as columns:
                    columns.union_by_name(rows.schema)
                change.overwrite(rows)
            continue
        with catalog.create_table_transaction(table, rows.schema) as change:
            change.append(rows)


def _write_parts(rows: Any, target: Path) -> None:
    """Write batches as a folder with one part, with the types that shoal's tables have."""
    target.mkdir(parents=True)
    schema = pa.schema([field.with_type(_plain(field.type)) for field in rows.schema])
    with pq.ParquetWriter(target / "part-00000.parquet", schema) as writer:
        for batch in rows:
            writer.write_batch(batch.cast(schema))


def _plain(kind: Any) -> Any:
    """The type without the large and viewed forms that these packages read texts in."""
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_struct(kind):
        return pa.struct([each.with_type(_plain(each.type)) for each in kind])
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(kind.value_field.with_type(_plain(kind.value_type)))
    return kind


def _tables_in(folder: Path) -> list[tuple[str, Path]]:
    """The tables in a folder, by name; one without a name for a folder of parts."""
    inner = [each for each in folder.iterdir() if each.is_dir() and "=" not in each.name]
    found = [
        (each.name.removesuffix(".parquet"), each) for each in inner if each.name[0] not in "_."
    ]
    return sorted(found) or [("", folder)]


def _folder_of(table: str) -> str:
    return table if table == EVENTS else f"{table}.parquet"
