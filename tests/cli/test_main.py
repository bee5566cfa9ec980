from __future__ import annotations

import importlib.util
import io
import re
import subprocess
import sys
from importlib import metadata

import pytest

from shoal.cli import main as cli
from shoal.cli.commands.subscribe import _line
from shoal.cli.support.errors import UserError
from shoal.client import Message
from shoal.matching.compiled.kernels import compiler
from shoal.overlays.registry import MODULES

HEAVY = ("pyspark", "pyarrow", "bokeh", "lark", "numpy", "pandas")

# Finding numba fails, as where it is not installed.
WITHOUT_NUMBA = """
import importlib.util
from shoal.cli import main as cli
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name == "numba" else find(name)
{}
"""


def exit_code(arguments: list[str]) -> int:
    with pytest.raises(SystemExit) as caught:
        cli.main(arguments)
    return caught.value.code or 0  # type: ignore[return-value]


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(["--help"]) == 0
    text = capsys.readouterr().out
    assert all(name in text for name in cli.COMMANDS)


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_help_fits_80_columns_with_every_word_whole(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert exit_code([command, "--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert not [line for line in lines if len(line) > 80 or re.search(r"\w…", line)]


def test_help_imports_nothing_heavy() -> None:
    script = (
        "import sys; from shoal.cli.main import build_app; build_app(None)(['--help'], "
        f"standalone_mode=False); print([m for m in {HEAVY!r} if m in sys.modules])"
    )
    output = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout
    assert output.splitlines()[-1] == "[]"


@pytest.mark.parametrize("command", ["up", "plan"])
def test_help_about_all_systems_imports_no_machine(command: str) -> None:
    """Its options are made of every system's; what a broker is made of is a third of the wait."""
    script = (
        f"import sys; from shoal.cli.main import build_app; build_app({command!r})"
        f"([{command!r}, '--help'], standalone_mode=False); "
        "print(*[m for m in sys.modules if m.startswith('shoal.overlays.')])"
    )
    output = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout
    imported = output.splitlines()[-1].split()
    systems = [module.partition(":")[0] for module in MODULES.values()]
    assert set(systems) <= set(imported)
    machines = ("protocol", "oracle", "routing", "relocation", "migration", "reserved_paths")
    assert [name for name in imported if name.rpartition(".")[2] in machines] == []
    assert "shoal.overlays.octopia.planner" not in imported


def test_every_command_has_its_module() -> None:
    missing = [
        name
        for name in cli.COMMANDS
        if importlib.util.find_spec(f"shoal.cli.commands.{name}") is None
    ]
    assert missing == []


@pytest.mark.parametrize("arguments", [["mtach"], ["--verbos"]])
def test_an_unknown_command_or_option_is_a_user_error(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code(arguments) == 2
    assert arguments[0] in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "advice"),
    [
        (["simulate", "x.toml", "-o", "x", "--seeds", "0"], "'--seeds': use 1 or more"),
        (["match", "--engine", "oak"], "'--engine': 'oak' is not one of 'index',"),
    ],
)
def test_a_value_that_is_not_allowed_is_answered_with_allowed_ones(
    arguments: list[str], advice: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code(arguments) == 2
    assert f"Invalid value for {advice}" in capsys.readouterr().err


def test_ctrl_c_while_code_is_loaded_prints_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def load(name: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "load_command", load)
    assert exit_code(["match"]) == 130
    assert capsys.readouterr().err == ""


def test_a_user_error_is_one_line_without_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise UserError("x.toml:3: no such key 'brokerz'")

    monkeypatch.setattr(cli, "load_command", lambda name: fail)
    assert exit_code(["match"]) == 2
    assert capsys.readouterr().err == "shoal: x.toml:3: no such key 'brokerz'\n"


def test_a_missing_extra_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise ModuleNotFoundError("No module named 'pyspark.sql'", name="pyspark.sql")

    monkeypatch.setattr(cli, "load_command", lambda name: fail)
    assert exit_code(["truth"]) == 2
    assert "pip install 'shoal[pipeline]'" in capsys.readouterr().err


def test_an_interrupt_while_a_command_is_imported_is_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(name: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "load_command", interrupted)
    assert exit_code(["match"]) == 130
    assert capsys.readouterr().err == ""


def test_it_can_be_interrupted_before_anything_is_imported() -> None:
    script = "import sys, shoal.cli.main; print('typer' in sys.modules, 'rich' in sys.modules)"
    output = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout
    assert output == "False False\n"


@pytest.mark.parametrize(
    ("line", "word", "expected"),
    [
        ("shoal stat", 1, "status"),
        ("shoal status --adv", 2, "--advise"),
        ("shoal reproduce oct", 2, "octopia"),
    ],
)
def test_a_shell_hears_how_a_line_goes_on(
    line: str,
    word: int,
    expected: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("_SHOAL_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(word))
    assert exit_code([]) == 0
    assert capsys.readouterr().out.split() == [expected]


def test_what_a_terminal_cannot_show_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = io.TextIOWrapper(io.BytesIO(), "iso-8859-1", write_through=True)
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setattr(cli, "load_command", lambda name: lambda: print("−5 ☃ ü"))  # noqa: RUF001
    assert exit_code(["match"]) == 0
    assert terminal.buffer.getvalue() == "\\u22125 \\u2603 ü\n".encode("iso-8859-1")


def test_completion_is_one_line_of_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(["--help"]) == 0
    assert capsys.readouterr().out.count("completion") == 1


def test_help_shows_no_value_where_none_is_given(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["--help"], ["status", "--help"]):
        assert exit_code(words) == 0
        assert "bool" not in capsys.readouterr().out


def test_help_breaks_lines_only_where_they_are_full(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "250")
    assert exit_code(["why", "--help"]) == 0
    assert "Exit code 1 when it does not reach the client." in capsys.readouterr().out


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main(["--version"])
    assert caught.value.code == 0
    kernels = f"kernels compiled by numba {metadata.version('numba')}"
    assert capsys.readouterr().out == f"shoal {metadata.version('shoal')}, {kernels}\n"


def test_version_says_how_to_get_compiled_kernels() -> None:
    found = subprocess.run(
        [sys.executable, "-c", WITHOUT_NUMBA.format("cli.main(['--version'])")],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert (
        "kernels not compiled (numba is not installed: pip install 'shoal[fast]')" in found.stdout
    )


def test_a_long_command_without_numba_ends_with_a_hint(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cli, "load_command", lambda name: lambda: None)
    monkeypatch.setattr(cli, "HINT_AFTER_S", 0.0)
    monkeypatch.setattr(compiler, "COMPILES", False)
    assert exit_code(["match"]) == 0
    assert capsys.readouterr().err.count("pip install 'shoal[fast]'") == 1
    assert exit_code(["status"]) == 0
    assert capsys.readouterr().err == ""


def test_windows_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    assert exit_code(["match"]) == 2
    assert "Windows is not supported" in capsys.readouterr().err


def test_what_arrives_does_nothing_to_a_terminal() -> None:
    message = Message("a", b"\x1b[2J\xff\n", 0, False, {"x": "\x07"}, None)
    assert _line(message, as_json=False) == "a \\x1b[2J\N{REPLACEMENT CHARACTER}\\n x=\\x07"
