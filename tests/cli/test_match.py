from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from shoal.cli.main import main

SUBSCRIPTIONS = """\
{"id": "s1", "filter": "carrier = 'UA' AND dep_delay > 30"}
{"id": "s2", "filter": "dep_delay > 30.5 OR cancelled"}
{"id": "s0", "filter": "carrier LIKE 'U%'"}
"""
PUBLICATIONS = """\
{"id": "p1", "attributes": {"carrier": "UA", "dep_delay": 45}}
{"id": "p2", "attributes": {"carrier": 5, "dep_delay": "45", "cancelled": true}}

{"id": "p1", "attributes": {"carrier": null, "näme": "\\u2028"}}
"""
ANSWERS = """\
{"publication": "p1", "subscriptions": ["s0", "s1", "s2"]}
{"publication": "p2", "subscriptions": ["s2"]}
{"publication": "p1", "subscriptions": []}
"""
WARNINGS = """\
shoal: warning: carrier is a number in 1 of 2 rows; `carrier = 'UA'` compares text
shoal: warning: dep_delay is text in 1 of 2 rows; `dep_delay > 30` compares numbers
"""


class Shell:
    """Runs `shoal match` on two files in a folder."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self._capsys = capsys

    def match(
        self, subscriptions: str | bytes, publications: str | bytes, *options: str
    ) -> tuple[int, str, str]:
        """Exit code, stdout, stderr with the folder's name cut out."""
        for name, content in (("S.jsonl", subscriptions), ("P.jsonl", publications)):
            data = content if isinstance(content, bytes) else content.encode()
            (self.folder / name).write_bytes(data)
        return self.run(
            *("--subscriptions", str(self.folder / "S.jsonl")),
            *("--publications", str(self.folder / "P.jsonl"), *options),
        )

    def run(self, *arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as caught:
            main(["match", *arguments])
        output = self._capsys.readouterr()
        code = caught.value.code
        assert code is None or isinstance(code, int)
        return code or 0, output.out, output.err.replace(f"{self.folder}/", "")


@pytest.fixture
def shell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(tmp_path, capsys)


@pytest.mark.parametrize("engine", ["index", "naive"])
def test_one_line_per_publication_in_order(shell: Shell, engine: str) -> None:
    assert shell.match(SUBSCRIPTIONS, PUBLICATIONS, "--engine", engine) == (0, ANSWERS, WARNINGS)


def test_publications_from_stdin(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    (shell.folder / "S").write_text(SUBSCRIPTIONS)
    stdin = io.TextIOWrapper(io.BytesIO(PUBLICATIONS.encode()))
    monkeypatch.setattr("sys.stdin", stdin)
    found = shell.run("--subscriptions", str(shell.folder / "S"), "--publications", "-")
    assert found == (0, ANSWERS, WARNINGS)


def test_padres_filters(shell: Shell) -> None:
    subscription = json.dumps({"id": "s", "filter": "[carrier,eq,'UA'],[dep_delay,>,30]"})
    code, out, _ = shell.match(subscription, PUBLICATIONS, "--syntax", "padres")
    assert code == 0
    assert [json.loads(line)["subscriptions"] for line in out.splitlines()] == [["s"], [], []]


def test_marks_of_other_systems_are_no_obstacle(shell: Shell) -> None:
    subscriptions = b"\xef\xbb\xbf" + SUBSCRIPTIONS.replace("\n", "\r\n").encode()
    assert shell.match(subscriptions, PUBLICATIONS.rstrip()) == (0, ANSWERS, WARNINGS)


def test_empty_files_print_nothing(shell: Shell) -> None:
    assert shell.match("", "") == (0, "", "")
    assert shell.match(SUBSCRIPTIONS, "\n") == (0, "", "")


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "not JSON"),
        ("[]", "not a JSON object"),
        ('{"filter": "a"}', "key 'id' is missing"),
        ('{"id": "s"}', "key 'filter' is missing"),
        ('{"id": 1, "filter": "a"}', "key 'id' must be a string"),
        ('{"id": "s", "filter": null}', "key 'filter' must be a string"),
        ('{"id": "s", "filter": "a", "client": "c"}', "unknown key 'client'"),
        ('{"id": "s", "id": "t", "filter": "a"}', "key 'id' stands twice"),
        ('{"id": "s1", "filter": "a"}', "id 's1' stands in line 1 already"),
        ('{"id": "s", "filter": "a ="}', "filter, line 1, column 4: the filter ends too early"),
        ('{"id": "\\ud800", "filter": "a"}', "half a surrogate pair"),
        ("[" * 100_000, "nested too deeply"),
        (b'{"id": "\xff", "filter": "a"}', "not UTF-8 (byte 9 of the line)"),
    ],
)
def test_a_broken_subscription_stops_it_with_nothing_printed(
    shell: Shell, line: str | bytes, reason: str
) -> None:
    broken = line if isinstance(line, bytes) else line.encode()
    code, out, err = shell.match(SUBSCRIPTIONS.encode() + b"\n" + broken, PUBLICATIONS)
    assert (code, out) == (2, "")
    assert err.startswith("shoal: S.jsonl:5: ")
    assert reason in err


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"id": "p"}', "key 'attributes' is missing"),
        ('{"id": "p", "attributes": []}', "key 'attributes' must be an object"),
        ('{"id": "p", "attributes": {"a": 1, "a": 2}}', "key 'a' stands twice"),
        ('{"id": "\\ud800", "attributes": {}}', "half a surrogate pair"),
    ],
)
def test_a_broken_publication_is_skipped_on_demand(shell: Shell, line: str, reason: str) -> None:
    content = line + "\n" + PUBLICATIONS
    code, out, err = shell.match(SUBSCRIPTIONS, content)
    assert (code, out) == (2, "")
    assert err.startswith("shoal: P.jsonl:1: ")
    assert reason in err
    code, out, err = shell.match(SUBSCRIPTIONS, content, "--skip-bad")
    assert (code, out) == (0, ANSWERS)
    assert f"skipped P.jsonl:1: {err.splitlines()[0].partition(':1: ')[2]}" in err
    assert err.endswith(
        "shoal: skipped 0 broken subscription lines and 1 broken publication lines\n" + WARNINGS
    )


@pytest.mark.parametrize("engine", ["index", "naive"])
def test_attributes_are_those_that_brokers_see(shell: Shell, engine: str) -> None:
    subscriptions = {
        "inner": "`AM2301.Temperature` > 20", "flat": "`a.b` = 7", "topic": "`$topic` = 'lamp'",
        "none": "`AM2301.none` IS NULL AND u = 1",
    }  # fmt: skip
    lines = "\n".join(json.dumps({"id": n, "filter": f}) for n, f in subscriptions.items())
    publications = [
        '{"AM2301": {"Temperature": 21.5}, "u": 1}', '{"a": {"b": 8}, "a.b": 7, "$topic": "lamp"}'
    ]  # fmt: skip
    content = "\n".join(f'{{"id": "p", "attributes": {each}}}' for each in publications)
    code, out, err = shell.match(lines, content, "--engine", engine)
    assert (code, err) == (0, "")
    found = [json.loads(line)["subscriptions"] for line in out.splitlines()]
    assert found == [["inner", "none"], ["flat", "topic"]]


@pytest.mark.parametrize(
    "bad",
    [str([1] * 257), "NaN", "-Infinity", "1e999", "9" * 5000, '"\\ud800"',
     f'{{"b": {[1] * 257}}}', f'"{"x" * 16_385}"'],
)  # fmt: skip
def test_a_value_that_no_attribute_can_be_counts_as_missing(shell: Shell, bad: str) -> None:
    subscriptions = '{"id": "s", "filter": "u = 1 AND a IS NULL"}'
    line = f'{{"id": "p", "attributes": {{"a": {bad}, "u": 1, "n": null}}}}'
    code, out, err = shell.match(subscriptions, line)
    assert (code, out) == (0, '{"publication": "p", "subscriptions": ["s"]}\n')
    name = "a.b" if bad[0] == "{" else "a"
    told = f"P.jsonl:1: {name} is no value that an attribute can have, and counts as missing\n"
    assert f"shoal: warning: {told}" in err


def test_an_integer_beyond_64_bits_is_a_double(shell: Shell) -> None:
    line = '{"id": "p", "attributes": {"a": 9223372036854775808}}'
    code, out, _ = shell.match('{"id": "s", "filter": "a = 9223372036854775808.0"}', line)
    assert (code, out) == (0, '{"publication": "p", "subscriptions": ["s"]}\n')


def test_a_file_that_is_not_there(shell: Shell) -> None:
    folder = str(shell.folder)
    code, _, err = shell.run("--subscriptions", f"{folder}/none", "--publications", "-")
    assert (code, err) == (2, "shoal: none: there is no such file\n")
    (shell.folder / "p.jsonl").write_text("")
    code, _, err = shell.run("--subscriptions", folder, "--publications", f"{folder}/p.jsonl")
    assert code == 2
    assert "p.jsonl is not a Parquet file; mend it or move it away" in err


def test_an_unknown_engine_is_refused(shell: Shell) -> None:
    code, _, err = shell.match(SUBSCRIPTIONS, PUBLICATIONS, "--engine", "quick")
    assert code == 2
    assert "quick" in err


EXPLAINED = """\
p1 does not match s2:
  UNKNOWN  dep_delay > 30.5 OR cancelled = TRUE: no part is TRUE, 1 of 2 is UNKNOWN
    FALSE    dep_delay > 30.5: dep_delay is 5, which is not > 30.5
    UNKNOWN  cancelled = TRUE: cancelled is missing; there is Cancelled, and names are \
case-sensitive
p1 matches s0
"""


def test_why_not(shell: Shell) -> None:
    publication = '{"id": "p1", "attributes": {"carrier": "UA", "dep_delay": 5, "Cancelled": true}}'
    options = ("--explain", "--only", "s0", "--only", "s2")
    assert shell.match(SUBSCRIPTIONS, publication, *options) == (0, EXPLAINED, "")


def test_why_not_as_json(shell: Shell) -> None:
    code, out, _ = shell.match(SUBSCRIPTIONS, PUBLICATIONS, "--explain", "--json")
    lines = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    assert [(line["publication"], line["subscription"]) for line in lines] == [
        (publication, id) for publication in ("p1", "p2", "p1") for id in ("s1", "s2", "s0")
    ]
    matching = [json.loads(line)["subscriptions"] for line in ANSWERS.splitlines()]
    for number, ids in enumerate(matching):
        pairs = lines[3 * number : 3 * number + 3]
        assert sorted(pair["subscription"] for pair in pairs if pair["matches"]) == ids
    parts = lines[3]["why"]["parts"]
    assert [part["reason"] for part in parts] == [
        "carrier is the number 5, compared with a string",
        "dep_delay is the string '45', compared with a number",
    ]


def test_only_some_subscriptions(shell: Shell) -> None:
    code, out, _ = shell.match(SUBSCRIPTIONS, PUBLICATIONS, "--only", "s1")
    assert code == 0
    assert [json.loads(line)["subscriptions"] for line in out.splitlines()] == [["s1"], [], []]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--only", "s3"], "--only s3: no subscription has this id; there is s0 and s1 and s2"),
        (["--json"], "--json goes with --explain"),
        (["--explain", "--engine", "naive"], "leave out --engine naive"),
    ],
)
def test_options_that_do_not_go(shell: Shell, options: list[str], complaint: str) -> None:
    code, out, err = shell.match(SUBSCRIPTIONS, PUBLICATIONS, *options)
    assert (code, out) == (2, "")
    assert complaint in err


@pytest.mark.parametrize("options", [[], ["--engine", "naive"]])
def test_what_a_table_has_is_named_beside_what_it_lacks(shell: Shell, options: list[str]) -> None:
    """Only columns that filters ask for were named: `there are dep_delay`, of two."""
    subscriptions, publications = shell.folder / "s.csv", shell.folder / "p.csv"
    subscriptions.write_text("id,filter\ns,dep_delay > 1 AND crrier = 'UA'\nt,gate = 1\n")
    publications.write_text("id,carrier,dep_delay\np1,UA,45\n")
    files = ["--subscriptions", str(subscriptions), "--publications", str(publications)]
    code, _, err = shell.run(*files, *options)
    assert code == 0
    assert "no publication has crrier, and `crrier = 'UA'` asks for it; did you mean carr" in err
    assert (
        "no publication has gate, and `gate = 1` asks for it; there are carrier, dep_delay" in err
    )


def test_small_tables_wait_for_no_library(tmp_path: Path) -> None:
    """Importing any of these takes longer than to match 2,000 rows."""
    (tmp_path / "s.csv").write_text("id,filter\nlate,dep_delay > 30\nany,TRUE\n")
    rows = "".join(f"{number},{number % 100}\n" for number in range(2_000))
    (tmp_path / "p.csv").write_text(f"id,dep_delay\n{rows}")
    options = ["match", "--subscriptions", "s.csv", "--publications", "p.csv"]
    script = (
        f"import sys; from shoal.cli.main import build_app; "
        f"build_app('match')({options!r}, standalone_mode=False); "
        "print([m for m in ('numba', 'pandas', 'pyspark') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    lines = done.stdout.splitlines()
    assert len(lines) == 2_001
    assert json.loads(lines[31]) == {"publication": 31, "subscriptions": ["any", "late"]}
    assert lines[-1] == "[]"
