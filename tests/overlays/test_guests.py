"""Errors for authors of systems: one sentence that names the module and the remedy."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from shoal.cli import main as command_line
from shoal.overlays.errors import SystemModuleError
from shoal.overlays.guests import guests

GOOD = """
import msgspec
from shoal.broker.messages import Message
from shoal.broker.strategy import BaseStrategy
from shoal.overlays.system import System
class Parameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    hub: str = ""
class Said(Message, frozen=True):
    what: str
class Row(msgspec.Struct, frozen=True):
    broker: str
class Guest(BaseStrategy):
    is_ready: bool
    keeps_order = True
    description = {}
    def __init__(self, context, parameters): self.is_ready = True
    def receive(self, neighbour, message, now_us, out): ...
    def request(self, client, request, now_us, out): ...
    def link(self, neighbour, state, now_us, out): ...
SYSTEM = System(name="guest", strategy=Guest, parameters=Parameters, messages=(Said,),
    records={"rows": Row}, shown=("rows",))
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "guest_module.py").write_text(GOOD)
    monkeypatch.delitem(sys.modules, "guest_module", raising=False)
    return str(tmp_path / "guest_module.py")


def test_a_valid_module_is_registered_once(module: str) -> None:
    assert list(guests("V", "guest_module, guest_module,", ("tree",))) == ["guest"]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("def receive", "def recieve", "class Guest lacks receive; derive it from BaseStrategy"),
        ("keeps_order", "keeps", "class Guest lacks keeps_order; "),
        ("strategy=Guest", "strategy=5", "strategy is 5; give a class"),
        ("strategy=Guest, ", "", "TypeError: Missing required argument 'strategy' ("),
        ("parameters=Parameters", "parameters=Parameters()", "give the class itself"),
        ('hub: str = ""', "hub: str", "Parameters.hub has no default; give it one"),
        (
            "shown=(",
            "complete=lambda parameters, brokers: brokers, shown=(",
            "complete gives tuple; it is to give Parameters",
        ),
        (
            "shown=(",
            "complete=lambda parameters: parameters, shown=(",
            "complete: TypeError: <lambda>() takes 1 positional argument",
        ),
        ("(Said,)", "(Guest,)", "messages has Guest; list classes that derive from "),
        (
            "Message, frozen=True",
            "Message, frozen=True, tag='Subscribe'",
            "messages cannot travel: ",
        ),
        ("broker: str", "broker: set", "a field of Row is no column; fields are str, int or float"),
        ("broker: str", "broker: list[str]", "a field of Row is no column; fields are str, int or"),
        ("shown=(", "shape='ring', shown=(", "shape is 'ring'; give one of shoal.overlays.shapes"),
        ('"rows": Row', '"load": Row', "every trace has a table 'load'; name it otherwise"),
        ('("rows",)', '("other",)', "shown: 'other' is none of records"),
        ('"guest"', '"tree"', "there is a system 'tree' already; give SYSTEM another name"),
        ('"guest"', '"my guest"', "the name 'my guest' cannot be a key of a file"),
        ("SYSTEM = System(", "OTHER = System(", "it has no SYSTEM = System("),
        ("import msgspec", "import nosuch", "ModuleNotFoundError: No module named 'nosuch' ("),
        ("import msgspec", "import", "SyntaxError: "),
    ],
)
def test_errors_of_a_module_are_one_sentence(module: str, old: str, new: str, said: str) -> None:
    assert old in GOOD
    Path(module).write_text(GOOD.replace(old, new, 1))
    with pytest.raises(SystemModuleError) as found:
        guests("V", "guest_module", ("tree",))
    assert str(found.value).startswith("V: module guest_module: ")
    assert said in str(found.value)


@pytest.mark.parametrize("name", ["nowhere", "../star.py", "nowhere.within"])
def test_a_missing_module_is_an_error(name: str) -> None:
    with pytest.raises(SystemModuleError, match="PYTHONPATH"):
        guests("V", name, ())


def test_two_systems_of_one_name_are_an_error(module: str, tmp_path: Path) -> None:
    (tmp_path / "guest_module_2.py").write_text(GOOD)
    with pytest.raises(SystemModuleError, match="module guest_module_2: there is a system 'guest'"):
        guests("V", "guest_module,guest_module_2", ())


def test_commands_print_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def load(name: str) -> None:
        raise SystemModuleError("V: module x: wrong")

    monkeypatch.setattr(command_line, "load_command", load)
    with pytest.raises(SystemExit) as ended:
        command_line.main(["simulate"])
    assert ended.value.code == 2
    assert capsys.readouterr().err == "shoal: V: module x: wrong\n"
