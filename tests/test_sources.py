"""Rules about the sources that no other tool checks."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tools.modules import SOURCES

# `dict`s whose first key is read, but which are not emptied from the front.
LOOKED_AT = {
    ("matching/relations/covering.py", "_kept"),
    ("matching/topics/trie.py", "children"),
    # One for each disk.
    ("mqtt/admission.py", "refusals"),
    # Its contents are in an `OrderedDict`; an empty one for each session takes too much memory.
    ("mqtt/sessions/delivering/delivery.py", "_resend"),
}


def first_of(node: ast.AST) -> str | None:
    """The attribute whose first element the expression reads: `next(iter(self.x))`, `islice(self.x,
    n)`.
    """
    match node:
        case ast.Call(ast.Name("next"), [ast.Call(ast.Name("iter"), [taken])]):
            pass
        case ast.Call(ast.Name("next"), [ast.Call(ast.Name("iter"), [taken]), _]):
            pass
        case ast.Call(ast.Name("islice"), [taken, _]):
            pass
        case _:
            return None
    match taken:
        case ast.Call(ast.Attribute(of, "items" | "values" | "keys"), []):
            taken = of
    match taken:
        case ast.Attribute(ast.Name("self"), name):
            return name
    return None


def dicts_taken_from_the_front(source: str) -> Iterator[str]:
    """Attributes of classes that are plain `dict`s, and whose first element is read."""
    for each in ast.walk(ast.parse(source)):
        if isinstance(each, ast.ClassDef):
            plain = {
                node.target.attr
                for node in ast.walk(each)
                if isinstance(node, ast.AnnAssign)
                and isinstance(node.target, ast.Attribute)
                and re.match(r"dict\b", ast.unparse(node.annotation))
            }
            names = (first_of(node) for node in ast.walk(each))
            yield from (name for name in names if name in plain)


def test_the_rule_finds_dicts_read_from_the_front() -> None:
    source = """
class Queue:
    def __init__(self) -> None:
        self.waiting: dict[int, None] = {}
        self.ordered: OrderedDict[int, None] = OrderedDict()

    def take(self) -> None:
        del self.waiting[next(iter(self.waiting))]
        some = list(islice(self.waiting.items(), 7))
        del self.ordered[next(iter(self.ordered))]
"""
    assert list(dicts_taken_from_the_front(source)) == ["waiting", "waiting"]


def test_dicts_read_from_the_front_are_ordered_dicts() -> None:
    """A `dict` keeps a hole for each deleted key, and a search for the first key passes all of
    them.

    With half a million keys that takes up to a millisecond each time.
    """
    found = {
        (str(path.relative_to(SOURCES)), name)
        for path in map(Path, sorted(SOURCES.rglob("*.py")))
        for name in dicts_taken_from_the_front(path.read_text(encoding="utf-8"))
    }
    assert found <= LOOKED_AT
