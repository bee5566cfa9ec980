"""Small files of a folder become few."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from shoal.frames.compaction import compact, rows_in


def test_neighbours_are_merged_up_to_a_number_of_rows(tmp_path: Path) -> None:
    sizes = (3, 0, 4, 9, 1, 12, 2, 2)
    for number, size in enumerate(sizes):
        values = list(range(number * 100, number * 100 + size))
        pq.write_table(
            pa.table({"v": pa.array(values, pa.int64())}), tmp_path / f"part-{number}.parquet"
        )
        (tmp_path / f".part-{number}.parquet.crc").touch()
    before = pq.read_table(tmp_path)
    compact(tmp_path, 10)
    files = sorted(tmp_path.glob("*.parquet"))
    assert [pq.read_metadata(file).num_rows for file in files] == [7, 10, 12, 4]
    assert pa.concat_tables(map(pq.read_table, files)) == before
    assert rows_in(tmp_path) == sum(sizes)
    # Spark checks a file by the checksum of its name.
    assert [each.name for each in tmp_path.glob(".*")] == [".part-5.parquet.crc"]
