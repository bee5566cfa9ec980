"""TOML into typed structs, with errors that name the file, the key and the allowed values.

An unknown key is an error, never ignored: the error has its whole path and the nearest existing
key. Overrides (`key.path=value`, from a command line) are typed like the file. If a table is one of
several kinds (its key `kind` selects one), overriding the kind drops the keys of the former one.

>>> class Speed(msgspec.Struct, frozen=True):
...     limit_kmh: int = 100
>>> convert({"limit_kmh": 50}, Speed, "roads.toml").limit_kmh
50
>>> convert({"limit": 50}, Speed, "roads.toml")
Traceback (most recent call last):
shoal.typed_toml.TomlError: roads.toml: limit: unknown key; did you mean limit_kmh?
"""

from __future__ import annotations

import copy
import difflib
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec
from msgspec import inspect

T = TypeVar("T")

KIND = "kind"
OVERRIDE = "--set"


class TomlError(ValueError):
    """A file or an override that does not fit its type."""


def read_table(path: Path) -> dict[str, Any]:
    """The file as nested dictionaries; TomlError when it cannot be read as TOML."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise TomlError(f"{path}: cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise TomlError(f"{path}: byte {error.start} is not UTF-8 text") from None
    except tomllib.TOMLDecodeError as error:
        raise TomlError(f"{path}: {error}") from None


def override(data: dict[str, Any], settings: Iterable[str], target: type) -> list[str]:
    """Put `key.path=value` settings into `data`; returns their paths.

    A value is read as TOML where it is TOML, else (and where a text is expected) taken as text.
    """
    parsed = [_split(setting) for setting in settings]
    # A change of kind first: it drops the former kind's keys, not the other overrides.
    parsed.sort(key=lambda setting: setting[0][-1] != KIND)
    for keys, text in parsed:
        table = data
        for position, key in enumerate(keys[:-1], start=1):
            table = table.setdefault(key, {})
            if not isinstance(table, dict):
                where = ".".join(keys[:position])
                raise TomlError(f"{OVERRIDE} {'.'.join(keys)}: {where} is not a table")
        value = _value(text, _type_at(data, inspect.type_info(target), keys))
        if keys[-1] == KIND and table.get(KIND) != value:
            table.clear()
        table[keys[-1]] = value
    return [".".join(keys) for keys, _ in parsed]


def convert(
    data: dict[str, Any],
    target: type[T],
    label: str,
    overridden: Sequence[str] = (),
    known: Sequence[str] | None = None,
    pages: Mapping[str, str] = {},
    within: str = "",
) -> T:
    """`data` as a `target`; TomlError names `label` (or the override) and the path of the key.

    `known` are the keys that an unknown one is compared with, if not the target's own; `pages`
    say where keys are explained, by the first of a path, "" for all others; `within` is the path of
    `data` itself.
    """

    kind = inspect.type_info(target)
    found = _next_fault(data, target, kind, known)
    if not isinstance(found, _Fault):
        return found
    origin = OVERRIDE if any(_concerns(key, found.path) for key in overridden) else label
    raise TomlError(_said(found, origin, pages, within))


class Draft(NamedTuple, Generic[T]):
    """The readable part of a table, without its faults; None if too little is left.

    `faults` name all that is at fault by its path, as `convert` does of the first.  `dropped` are
    these paths, and those of keys that may be meant.  `is_whole`: no item of a list is gone.
    """

    value: T | None
    faults: list[str]
    dropped: set[str]
    is_whole: bool


def draft(
    data: dict[str, Any],
    target: type[T],
    label: str,
    known: Sequence[str] | None = None,
    pages: Mapping[str, str] = {},
    within: str = "",
) -> Draft[T]:
    """As `convert`, and goes on behind each fault without the key, or the table, that has it.

    >>> class Road(msgspec.Struct, frozen=True):
    ...     limit_kmh: int = 100
    ...     lanes: int = 2
    >>> found = draft({"limit": 50, "lanes": "two"}, Road, "roads.toml")
    >>> found.value, *found.faults
    (Road(limit_kmh=100, lanes=2), 'roads.toml: limit: unknown key; did you mean limit_kmh?', \
'roads.toml: lanes: expected a whole number, got text')
    """
    left, kind = copy.deepcopy(data), inspect.type_info(target)
    faults: dict[str, str] = {}
    dropped: set[str] = set()
    # The places that items of lists had at first, where some were dropped since.
    places: dict[str, list[int]] = {}
    while True:
        found = _next_fault(left, target, kind, known)
        if not isinstance(found, _Fault):
            return Draft(found, list(faults.values()), dropped, not places)
        path = _at_first(found.path, places)
        dropped.add(path)
        if meant := re.search(r"did you mean (\S+)\?$", found.problem):
            dropped.add(_join(path.rpartition(".")[0], meant[1]))
        # A dropped key is missing now; its fault is reported already.
        faults.setdefault(path, _said(_Fault(path, found.problem), label, pages, within))
        # A struct's own check may name a key further below.
        below = re.match(r"([\w.]+): ", found.problem)
        if below and _drop(left, _join(found.path, below[1]), places, or_above=False):
            continue
        if not _drop(left, found.path, places):
            return Draft(None, list(faults.values()), dropped, False)


class _Fault(NamedTuple):
    path: str
    problem: str


def _next_fault(
    data: dict[str, Any], target: type[T], kind: inspect.Type, known: Sequence[str] | None
) -> T | _Fault:
    """The first fault of a table; if there is none, the table as a `target`."""
    problem = _first_problem(data, kind, "", known)
    if problem is not None:
        return _Fault(*problem)
    try:
        return msgspec.convert(data, target)
    except msgspec.ValidationError as error:
        return _Fault(*_explain(str(error), data, kind))


def _said(fault: _Fault, origin: str, pages: Mapping[str, str], within: str) -> str:
    page = pages.get(re.split(r"[.\[]", fault.path)[0], pages.get("", ""))
    where = f" ({page})" if page else ""
    return ": ".join(filter(None, (origin, _join(within, fault.path), fault.problem))) + where


def _drop(
    data: dict[str, Any], path: str, places: dict[str, list[int]], *, or_above: bool = True
) -> bool:
    """Remove the value at a path from a table; if it is missing, its container (`or_above`).

    False if there is nothing to take.
    """
    tokens: list[str | int] = [
        int(place) if place else key for place, key in re.findall(r"\[(\d+)\]|([^.\[\]]+)", path)
    ]
    while tokens:
        within: Any = data
        try:
            for token in tokens[:-1]:
                within = within[token]
            within[tokens[-1]]
        except (KeyError, IndexError, TypeError):
            if not or_above:
                return False
            tokens.pop()
            continue
        if isinstance(within, list):
            prefix = _at_first(_path(tokens[:-1]), places)
            places.setdefault(prefix, list(range(len(within)))).pop(int(tokens[-1]))
        del within[tokens[-1]]
        return True
    return False


def _path(tokens: Iterable[str | int]) -> str:
    text = ""
    for token in tokens:
        text = f"{text}[{token}]" if isinstance(token, int) else _join(text, token)
    return text


def _at_first(path: str, places: Mapping[str, list[int]]) -> str:
    """A path with the places that items of lists had before some were dropped."""
    found = ""
    for part in re.split(r"(\[\d+\])", path):
        if part[:1] == "[" and found in places:
            part = f"[{places[found][int(part[1:-1])]}]"
        found += part
    return found


def _concerns(key: str, path: str) -> bool:
    """Return whether an override of `key` caused a problem at `path`."""
    given = key.removesuffix(f".{KIND}").split(".")
    found = re.split(r"[.\[]", path)
    shared = min(len(given), len(found))
    return given[:shared] == found[:shared]


def _split(setting: str) -> tuple[list[str], str]:
    path, equals, text = setting.partition("=")
    keys = [key.strip() for key in path.split(".")]
    if not equals or not all(keys):
        raise TomlError(f"{OVERRIDE} {setting}: write key.path=value")
    return keys, text.strip()


def _value(text: str, kind: inspect.Type | None) -> Any:
    if isinstance(kind, inspect.StrType):
        return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" else text
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _type_at(data: Any, kind: inspect.Type, keys: Sequence[str]) -> inspect.Type | None:
    """The type of the value at this path of `data`; None where there is no such key."""
    for key in keys:
        struct = _struct(data, kind)
        fields = {field.encode_name: field.type for field in struct.fields} if struct else {}
        if key not in fields:
            return None
        kind = fields[key]
        data = data.get(key, {}) if isinstance(data, dict) else {}
    return kind


def _kinds(kind: inspect.Type) -> dict[str, inspect.StructType]:
    """The structs of a tagged union by the value of their key `kind`."""
    if not isinstance(kind, inspect.UnionType):
        return {}
    structs = [one for one in kind.types if isinstance(one, inspect.StructType)]
    return {str(struct.tag): struct for struct in structs if struct.tag_field == KIND}


def _struct(data: Any, kind: inspect.Type) -> inspect.StructType | None:
    if isinstance(kind, inspect.StructType):
        return kind
    if isinstance(kind, inspect.UnionType):
        # A table that need not be there, or for which a text may stand.
        structs = [one for one in kind.types if isinstance(one, inspect.StructType)]
        if len(structs) == 1 and structs[0].tag_field is None:
            return structs[0]
    return _kinds(kind).get(str(data.get(KIND))) if isinstance(data, dict) else None


def _first_problem(
    data: Any, kind: inspect.Type, path: str, known: Sequence[str] | None = None
) -> tuple[str, str] | None:
    """Path and description of the first unknown key or unknown kind."""
    if isinstance(kind, inspect.VarTupleType | inspect.ListType) and isinstance(data, list):
        items = ((item, kind.item_type, f"{path}[{n}]") for n, item in enumerate(data))
        return next(filter(None, (_first_problem(*item) for item in items)), None)
    if not isinstance(data, dict):
        return None
    kinds = _kinds(kind)
    if kinds and data.get(KIND) not in kinds:
        found = f"{data[KIND]!r} is none" if KIND in data else "is missing"
        return _join(path, KIND), f"{found}; use one of {', '.join(kinds)}"
    struct = _struct(data, kind)
    if struct is None:
        return None
    fields = {field.encode_name: field.type for field in struct.fields}
    for key, value in data.items():
        if key in fields:
            problem = _first_problem(value, fields[key], _join(path, key))
            if problem is not None:
                return problem
        elif key != struct.tag_field:
            return _join(path, key), _unknown(key, list(fields) if known is None else known)
    return None


def _unknown(key: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
    if near:
        return f"unknown key; did you mean {near[0]}?"
    return f"unknown key; known here: {', '.join(known) or 'none'}"


def _explain(message: str, data: Any, kind: inspect.Type) -> tuple[str, str]:
    """msgspec's message as the path of the key and a sentence about it."""
    problem, _, place = message.partition(" - at `$")
    path = place.rstrip("`").lstrip(".")
    missing = re.fullmatch(r"Object missing required field `(\w+)`", problem)
    if missing:
        return _join(path, missing[1]), "is missing"
    # A struct's own check names its key first, as in "weight: 140 is not ...".
    own = re.match(r"(\w+): ", problem)
    if own:
        return _join(path, own[1]), problem[own.end() :]
    keys = re.sub(r"\[\d+\]", "", path).split(".")
    expected = _type_at(data, kind, keys)
    if isinstance(expected, inspect.LiteralType):
        return (
            path,
            f"{_in_words(problem)}; use one of {', '.join(sorted(map(str, expected.values)))}",
        )
    if isinstance(expected, inspect.EnumType):
        values = ", ".join(str(member.value) for member in expected.cls)
        return path, f"{_in_words(problem)}; use one of {values}"
    return path, _in_words(problem)


# msgspec's names of types, and plain ones.
_NOUNS = {
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "array": "a list",
    "object": "a table",
    "null": "nothing",
}


def _in_words(problem: str) -> str:
    """msgspec's message without the words of a programmer.

    >>> _in_words("Expected `int >= 0`"), _in_words("Invalid enum value 'mean'")
    ('expected a whole number >= 0', "'mean' is unknown")
    >>> _in_words("Expected `array` of length 2, got 1")
    'expected a list of length 2, got 1'
    """
    if found := re.fullmatch(r"Invalid enum value (.+)", problem, re.DOTALL):
        return f"{found[1]} is unknown"

    def named(quoted: re.Match[str]) -> str:
        words = re.sub(r"\b[a-z]+\b", lambda word: _NOUNS.get(word[0], word[0]), quoted[1])
        return words.replace(" | ", " or ")

    said = re.sub(r"`([^`]*)`", named, problem).replace("matching regex", "of the form")
    return said[:1].lower() + said[1:]


def _join(path: str, key: str) -> str:
    return ".".join(filter(None, (path, key)))
