"""`shoal match` on tables without Spark: read by Arrow, matched in this process.

Lines that stand beside a table are used as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from shoal.cli.matching.files import (
    ReadPublication,
    ReadSubscription,
    kind_complaints,
    track,
    warn,
)
from shoal.cli.matching.tables import Answer, check_files
from shoal.cli.support.places import check_new
from shoal.cli.support.spark import print_counts

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types

    from shoal.frames.publications import Publications
    from shoal.frames.subscriptions import SubscriptionFrame

Wanted: TypeAlias = Path | Sequence[ReadSubscription]
Given: TypeAlias = Path | Sequence[ReadPublication]

# Rows of a table that are searched for kinds of values.
_LOOKED_AT = 10_000


def match_frames(
    subscriptions: Wanted, publications: Given, out: Path | None, *, overwrite: bool
) -> Iterator[Answer]:
    """Return each publication's name and the ids of its subscriptions; none with `out`."""
    read = [each for each in (subscriptions, publications) if isinstance(each, Path)]
    check_new(out, overwrite=overwrite, inputs=read)
    wanted = _subscriptions(subscriptions)
    given = _publications(publications, wanted)
    known = _known(given)
    looked_at = _wanted_lines(wanted, _LOOKED_AT), _given_lines(given, _LOOKED_AT)
    warn(kind_complaints(*looked_at, known))
    if out is None:
        return _answers(wanted, given)
    _write(wanted, given, out, overwrite=overwrite)
    return iter(())


def as_lines(
    subscriptions: Wanted, publications: Given
) -> tuple[list[ReadSubscription], list[ReadPublication], Sequence[str]]:
    """Return tables as equivalent lines, for matching pair by pair.

    And which attributes publications have, read or not.
    """
    wanted = _subscriptions(subscriptions)
    given = _publications(publications, wanted)
    return _wanted_lines(wanted), _given_lines(given), _known(given)


def _known(given: Publications | Sequence[ReadPublication]) -> Sequence[str]:
    return () if isinstance(given, Sequence) else given.known


def _subscriptions(given: Wanted) -> SubscriptionFrame:
    import pyarrow as pa

    from shoal.frames.columns import texts
    from shoal.frames.reading import read_table_file
    from shoal.frames.subscriptions import FILTER, SubscriptionFrame

    if isinstance(given, Path):
        check_files(given)
        return SubscriptionFrame.of_table(read_table_file(given, inside="subscriptions.parquet"))
    ids, filters = texts(str(each.id) for each in given), texts(each.text for each in given)
    return SubscriptionFrame.of_table(pa.table({"id": ids, FILTER: filters}))


def _publications(
    given: Given, wanted: SubscriptionFrame
) -> Publications | Sequence[ReadPublication]:
    from shoal.frames.publications import Publications
    from shoal.frames.reading import read_table_file

    if not isinstance(given, Path):
        return given
    check_files(given)
    return Publications.of(read_table_file(given, inside="publications.parquet"), wanted)


def _wanted_lines(wanted: SubscriptionFrame, most: int | None = None) -> list[ReadSubscription]:
    return [ReadSubscription(id, filter, "") for id, filter in wanted.filters(most)]


def _given_lines(
    given: Publications | Sequence[ReadPublication], most: int | None = None
) -> list[ReadPublication]:
    if isinstance(given, Sequence):
        return list(given[:most])
    return [ReadPublication(name, values) for name, values in given.first(most).rows()]


def _answers(
    wanted: SubscriptionFrame, given: Publications | Sequence[ReadPublication]
) -> Iterator[Answer]:
    from shoal.frames.matching import ANSWERS, answers
    from shoal.frames.publications import row_names

    if isinstance(given, Sequence):
        index = wanted.index()
        for each in track(given, "matching"):
            yield each.id, wanted.named_one(index.match(each.attributes))
        return
    for answer in answers(given, wanted):
        keys = answer.select(answer.schema.names[:-1]).rename_columns(
            [field.name for field in given.key_fields]
        )
        yield from zip(row_names(keys), answer.column(ANSWERS).to_pylist(), strict=True)


def _write(
    wanted: SubscriptionFrame,
    given: Publications | Sequence[ReadPublication],
    out: Path,
    *,
    overwrite: bool,
) -> None:
    """All pairs as Parquet, in a folder like Spark's."""
    import pyarrow as pa
    import pyarrow.parquet as pq  # type: ignore[import-untyped]  # it ships no types

    from shoal.frames.folders import new_folder

    pairs = 0
    with new_folder(out, overwrite=overwrite) as folder:
        parts, schema = _pairs(wanted, given)
        with pq.ParquetWriter(folder / "part-00000.parquet", schema, compression="zstd") as writer:
            for part in parts:
                writer.write_batch(pa.RecordBatch.from_arrays(part.columns, schema=schema))
                pairs += part.num_rows
    counts: dict[str, object] = {
        "publications": len(given),
        "subscriptions": len(wanted),
        "pairs": pairs,
    }
    print_counts(f"pairs -> {out}", counts)


def _pairs(
    wanted: SubscriptionFrame, given: Publications | Sequence[ReadPublication]
) -> tuple[Iterator[pa.RecordBatch], pa.Schema]:
    import pyarrow as pa

    from shoal.frames.matching import pair_schema, pairs
    from shoal.frames.publications import Publications

    if isinstance(given, Sequence):
        ids = pa.table({"id": pa.array([each.id for each in given], pa.string())})
        schema = pair_schema(Publications(ids, pa.table({})), wanted)
        found = list(_answers(wanted, given))
        columns = [
            pa.array([name for name, each in found for _ in each], pa.string()),
            pa.array([id for _, each in found for id in each], wanted.ids.type),
        ]
        return iter([pa.RecordBatch.from_arrays(columns, schema=schema)]), schema
    return pairs(given, wanted), pair_schema(given, wanted)
