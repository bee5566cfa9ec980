"""The registry of studies, and the files of a conclusion."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pyarrow.parquet as pq
import pytest

from shoal.experiments.registry import STUDIES
from shoal.experiments.studies.study import Conclusion, StudyRows, write_conclusion
from shoal.report.study import StudyReport, read_study

REPORT = StudyReport(title="T", facts=(), notes=(), claims=(), tables=(), groups=())


@pytest.mark.parametrize("name", STUDIES)
@pytest.mark.parametrize("scale", ["small", "paper"])
def test_every_study_makes_a_plan_without_options_and_writes_nothing(
    name: str, scale: str, tmp_path: Path
) -> None:
    study = STUDIES[name]
    plan = study.plan(study.options(), scale, tmp_path / "study", 1)  # type: ignore[arg-type]
    assert all(source.title for source in plan.sources)
    assert list(tmp_path.iterdir()) == []


def test_equal_option_names_have_equal_types() -> None:
    said: dict[str, str] = {}
    for study in STUDIES.values():
        for field in msgspec.inspect.type_info(study.options).fields:  # type: ignore[attr-defined]
            assert said.setdefault(field.name, repr(field.type)) == repr(field.type)


def test_tables_without_rows_are_removed(tmp_path: Path) -> None:
    row = {"a": 1}
    tables = {"some": StudyRows([row]), "typed": StudyRows([], {"b": "double"})}
    assert write_conclusion(tmp_path, Conclusion(REPORT, tables)) == ()
    assert read_study(tmp_path / "study.json") == REPORT
    written = {path.stem: pq.read_table(path) for path in (tmp_path / "tables").iterdir()}
    assert written["some"].to_pylist() == [row]
    assert written["typed"].column_names == ["b"]
    assert "claims" not in written
    write_conclusion(tmp_path, Conclusion(REPORT, {"some": StudyRows([])}))
    assert not (tmp_path / "tables" / "some.parquet").exists()
