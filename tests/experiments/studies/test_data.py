"""The data that a study runs on."""

from __future__ import annotations

from pathlib import Path

import pytest

from shoal.experiments.studies.data import Walks, data_sets

WALKS = Walks(stocks=2, days=3)


@pytest.mark.parametrize(("name", "found"), [("", "a folder"), ("none", "no such file")])
def test_quotes_are_a_file(tmp_path: Path, name: str, found: str) -> None:
    path = tmp_path / name
    with pytest.raises(FileNotFoundError, match=f"{path}: {found}; --quotes wants CSV"):
        data_sets(path, flights=False, walks=WALKS, seed=1)


def test_without_real_data_quotes_are_walks() -> None:
    (data,) = data_sets(None, flights=False, walks=WALKS, seed=1)
    assert (data.name, data.file, data.walks) == ("synthetic", None, WALKS)
