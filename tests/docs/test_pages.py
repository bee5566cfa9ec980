"""Every example of the README and of `docs/` runs as written.

Commands that take minutes, or stop what they were started for, are in `ONLY_OPTIONS` with the
reason: their options are checked. `test_spark_pages.py` runs pages that need Spark.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest
from pyarrow import csv
from pyarrow import parquet as pq

from shoal.client.bridges.bridge_file import parse_bridge
from shoal.overlays.registry import SYSTEMS
from shoal.runtime.network_file import parse_network
from tests.docs.blocks import PAGES, ROOT, Block, blocks
from tests.docs.reader import Networks, reading

# Read by `test_spark_pages.py`.
SPARK_PAGES = (
    *("docs/how-to/log.md", "docs/how-to/spark.md"),
    *("docs/tutorials/own-data.md", "docs/tutorials/spark-live.md"),
)
# Pages that continue with the network of this page: its blocks are read first.
NETWORK = "docs/how-to/network.md"
ITS_NETWORK = (
    *("docs/how-to/brokers.md", "docs/how-to/clients.md", "docs/how-to/monitoring.md"),
    *("docs/how-to/systems.md", "docs/how-to/upgrade.md"),
)
# Commands with these beginnings are not run, by page, with the reason.
ONLY_OPTIONS = {
    "docs/how-to/changes.md": {
        "shoal simulate": "of the workload of another page; tests/experiments/test_changes.py",
        "shoal study": "the same",
    },
    "docs/how-to/evaluations.md": {"shoal reproduce": "minutes to hours"},
    "docs/how-to/studies.md": {"shoal study": "36 runs; tests/cli/test_study.py"},
    "docs/how-to/spark.md": {
        "shoal match --engine spark --master": "on a cluster; tests/pipeline/clusters",
        "shoal truth": "by a server that is not there; the same",
    },
    "docs/how-to/scaling.md": {
        "shoal up": "until Ctrl-C; tests/live/systems/test_scaling.py",
    },
    "docs/how-to/systems.md": {
        "shoal up": "twelve processes; tests/contract has its overlay",
        "shoal plan dynatops --network": "of a network that runs; the same",
        "shoal rearrange": "of a network that runs; tests/runtime/systems/test_rearranging.py",
    },
    "docs/tutorials/own-data.md": {
        "shoal record": "an hour at a broker that is not there",
        "shoal workload home": "made of that hour",
        "shoal simulate scenario.toml --set topology": "eight runs; test_seeds.py does it",
        "shoal summarise work/tree-8": "of those runs; tests/report/test_chance.py",
        "shoal report work/tree-8": "the same",
        "shoal up": "tests/cli/live/test_replay.py does that to a workload",
        "shoal replay": "the same",
        "shoal report work/baseline work/load --replay": "the same",
    },
    "docs/how-to/brokers.md": {
        "shoal forget": "of a broker that is dead; tests/live/membership/test_deaths.py",
    },
    "docs/how-to/clients.md": {
        "shoal move": "for a client that follows; tests/live/crowds/test_moved_clients.py",
    },
    "docs/how-to/console.md": {
        "shoal console": "until Ctrl-C; tests/console, tests/cli/live/test_story.py",
        "shoal trace": "of a network that runs; tests/cli/live/test_story.py",
        "shoal publish": "the same",
        "shoal story": "the same",
    },
    "docs/how-to/monitoring.md": {
        "shoal why": "of a client that is connected; tests/cli/live/test_why.py",
    },
    "docs/how-to/tls.md": {
        "shoal subscribe": "at a broker with a certificate; tests/client/test_endpoints.py",
    },
}
# Another shell, and this test itself.
ELSEWHERE = ("make", "export", ".venv/bin/pytest", "pytest")

HERE = {str(page.relative_to(ROOT)): list(blocks(page)) for page in PAGES}


@pytest.fixture(scope="module")
def networks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Networks]:
    networks = Networks(tmp_path_factory.mktemp("networks"))
    yield networks
    networks.stop()


def make_files(folder: Path) -> None:
    """Files that a page takes for granted."""
    (folder / "rtt.csv").write_text("from,to,ms\nB1,B2,3\nB1,B3,5\nB2,B3,9\n")
    (folder / "rates.csv").write_text("from,to,per_second\nB1,B2,3\n")
    (folder / "users.csv").write_text("user,broker,topic\nu1,B1,a\nu2,B2,a\nu3,B3,b\n")
    (folder / "brokers.csv").write_text("broker\nB1\nB2\nB3\nB4\n")
    (folder / "topics.csv").write_text("topic,per_second\na,3\nb,1\n")
    filters = pa.table({"id": ["late"], "filter": ["dep_delay > 30"]})
    pq.write_table(filters, folder / "subscriptions.parquet")
    events = pa.table({"id": ["p1", "p2"], "dep_delay": [45, 2]})
    pq.write_table(events, folder / "events.parquet")
    csv.write_csv(events, folder / "events.csv")


@pytest.mark.parametrize("page", [page for page in HERE if page not in SPARK_PAGES])
def test_every_example_of_a_page_runs(
    page: str, tmp_path: Path, networks: Networks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOAL_PASSWORD", "not asked for at a terminal")
    make_files(tmp_path)
    with reading(tmp_path, networks) as reader:
        for block in [*(HERE[NETWORK] if page in ITS_NETWORK else []), *HERE[page]]:
            reader.read(without_make(block), ONLY_OPTIONS.get(page, {}))


def without_make(block: Block) -> Block:
    """Drop the commands that `test_make_targets_and_paths_exist` checks."""
    kept = [line for line in block.text.splitlines(keepends=True) if not line.startswith(ELSEWHERE)]
    return block._replace(text="".join(kept))


def test_make_targets_and_paths_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for page in HERE:
        text = (ROOT / page).read_text()
        for target in re.findall(r"(?:^|`)make ([a-z-]+)", text, re.MULTILINE):
            assert target in targets, f"{page}: make {target}"
        for path in re.findall(r"^\S*pytest .*?(tests/\S+)", text, re.MULTILINE):
            assert (ROOT / path).exists(), f"{page}: {path}"


def test_toml_blocks_without_a_file_name_are_valid() -> None:
    base = {
        "name": "n",
        "brokers": [
            {"name": name, "peers": f"127.0.0.1:{7000 + n}"} for n, name in enumerate("AB")
        ],
    }
    for block in chain.from_iterable(HERE.values()):
        if block.language == "toml" and not block.file:
            table = msgspec.toml.decode(block.text)
            if "there" in table:
                assert parse_bridge(table, block.place).outgoing
                continue
            found = parse_network({**base, **table}, block.place)
            assert set(table) & {*SYSTEMS, *found.__struct_fields__} == set(table)


def test_commands_listed_as_not_run_exist() -> None:
    for page, unrun in ONLY_OPTIONS.items():
        texts = [each.text for block in HERE[page] for each in block.commands]
        for start in unrun:
            assert any(text.startswith(start) for text in texts), f"{page}: {start}"


def test_the_readme_is_one_page() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 130


@pytest.mark.parametrize("page", sorted((ROOT / "docs/background/papers").glob("*.md")))
def test_code_named_on_papers_pages_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    (base,) = re.findall(r"Paths are below `(src/shoal/\S+)`", text)
    rows = re.findall(r"^\| [^|]+ \| [^|]+ \|[^|]*\| ([^|]*`[^|]*) \|$", text, re.MULTILINE)
    for path in re.findall(r"`([\w/]+(?:/|\.py))`", " ".join(rows)):
        folders = [ROOT / base, ROOT / "src/shoal", ROOT / "src/shoal/pipeline/matching"]
        assert any((folder / path).exists() for folder in folders), path
