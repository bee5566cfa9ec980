"""Structs as sections of a page: for each a table of its keys, their types and defaults."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from msgspec import inspect

from tools.reference.texts import cell, doc_of, read_doc

KIND = "kind"
HEAD = "| key | value | default | |\n| --- | --- | --- | --- |"


class NothingSaidError(ValueError):
    """A key without a text."""


class Pages:
    """The places of structs' tables: one that several pages have is linked, not repeated."""

    def __init__(self) -> None:
        self.places: dict[type, str] = {}


def section(
    kind: type, path: str, pages: Pages, title: str, level: int = 2, without: str = ""
) -> list[str]:
    """The lines of a struct whose table is at `path`, and of those within it.

    `without` is a key that no file has.
    """
    lines = [f"{'#' * level} {title}", ""]
    prose = doc_of(kind).prose
    lines += [prose, ""] if prose else []
    news: list[tuple[type, str, str]] = []
    for field in _struct(kind).fields:
        key = _join(path, field.encode_name)
        for inner in structs_in(field.type):
            if inner.cls not in pages.places:
                name = _name(inner, key, field.type)
                pages.places[inner.cls] = f"#{anchor(name)}"
                news.append((inner.cls, key, name))
    lines += table(kind, path, pages, without)
    for struct, key, name in news:
        lines += ["", *section(struct, key, pages, name)]
    return lines


def table(kind: type, path: str, pages: Pages, without: str = "") -> list[str]:
    """The keys of one struct."""
    struct, texts = _struct(kind), doc_of(kind).keys
    if not struct.fields:
        return ["No keys."]
    lines = HEAD.splitlines()
    for field in struct.fields:
        name = field.encode_name
        if name == without:
            continue
        if name not in texts and not any(True for _ in structs_in(field.type)):
            raise NothingSaidError(f"{kind.__module__}.{kind.__qualname__} says nothing of {name}")
        inner = [_link(one, _join(path, name), field.type, pages) for one in structs_in(field.type)]
        text = cell(texts.get(name, ""))
        choices = _choices(field.type)
        text = " ".join(filter(None, (text, choices)))
        if inner:
            text = f"{text}; see {', '.join(inner)}" if text else f"see {', '.join(inner)}"
        lines.append(f"| `{name}` | {value(field.type)} | {default(field)} | {text} |")
    return lines


def value(kind: inspect.Type) -> str:
    """The type of a key, in words."""
    match kind:
        case inspect.BoolType():
            return "`true`, `false`"
        case inspect.IntType():
            return "whole number" + _bounds(kind)
        case inspect.FloatType():
            return "number" + _bounds(kind)
        case inspect.StrType():
            return "text"
        case inspect.LiteralType():
            return ", ".join(f"`{_toml(one)}`" for one in kind.values)
        case inspect.EnumType():
            return ", ".join(f'`"{one.value}"`' for one in kind.cls)
        case inspect.StructType():
            return "table"
        case inspect.VarTupleType() | inspect.ListType():
            return f"list of {_plural(value(kind.item_type))}"
        case inspect.TupleType():
            return f"list of {len(kind.item_types)}: {value(kind.item_types[0])}"
        case inspect.DictType():
            return f"table of {_plural(value(kind.value_type))}"
        case inspect.UnionType():
            parts = [value(one) for one in kind.types if not _is_nothing(one)]
            return " or ".join(dict.fromkeys(parts))
    return "any"


def default(field: inspect.Field) -> str:
    """The default of a key."""
    if field.required:
        return "needed"
    found = field.default
    if field.default_factory is not msgspec.NODEFAULT:
        found = field.default_factory()
    if found in (None, msgspec.NODEFAULT, msgspec.UNSET):
        return ""
    if isinstance(found, msgspec.Struct):
        return _kind_of(found)
    return f"`{_toml(msgspec.to_builtins(found))}`" if found not in ("", (), [], {}) else ""


def structs_in(kind: inspect.Type) -> Iterator[inspect.StructType]:
    """The structs that a value of this type is, or is a list of."""
    match kind:
        case inspect.StructType():
            yield kind
        case inspect.VarTupleType() | inspect.ListType():
            yield from structs_in(kind.item_type)
        case inspect.DictType():
            yield from structs_in(kind.value_type)
        case inspect.UnionType():
            for one in kind.types:
                yield from structs_in(one)


def _struct(kind: type) -> inspect.StructType:
    found = inspect.type_info(kind)
    assert isinstance(found, inspect.StructType)
    return found


def _name(struct: inspect.StructType, path: str, kind: inspect.Type) -> str:
    """The name of a struct's table, as TOML has it."""
    if struct.tag_field == KIND:
        return f'`[{path}]`, `kind = "{struct.tag}"`'
    if isinstance(kind, inspect.VarTupleType | inspect.ListType):
        return f"`[[{path}]]`"
    if isinstance(kind, inspect.DictType):
        return f"`[{path}.NAME]`"
    return f"`[{path}]`"


def _link(struct: inspect.StructType, path: str, kind: inspect.Type, pages: Pages) -> str:
    name = _name(struct, path, kind)
    shown = f'`"{struct.tag}"`' if struct.tag_field == KIND else name
    return f"[{shown}]({pages.places[struct.cls]})"


def _kind_of(value: msgspec.Struct) -> str:
    tag = getattr(value.__struct_config__, "tag", None)
    return f'`kind = "{tag}"`' if tag else ""


def _choices(kind: inspect.Type) -> str:
    """The meanings of an enumeration's members, if its docstring has them."""
    if isinstance(kind, inspect.UnionType):
        return " ".join(filter(None, map(_choices, kind.types)))
    if not isinstance(kind, inspect.EnumType):
        return ""
    texts = read_doc(kind.cls.__doc__ or "").keys
    said = [(one.value, texts[one.name]) for one in _members(kind.cls) if one.name in texts]
    return "<br>" + "<br>".join(f'`"{key}"`: {cell(text)}' for key, text in said) if said else ""


def _members(kind: type[enum.Enum]) -> Sequence[enum.Enum]:
    return list(kind)


def _bounds(kind: inspect.IntType | inspect.FloatType) -> str:
    match kind.ge, kind.le:
        case None, None:
            return ""
        case least, None:
            return f", at least {_number(least)}"
        case None, most:
            return f", at most {_number(most)}"
        case least, most:
            return f", {_number(least)} to {_number(most)}"


def _is_nothing(kind: inspect.Type) -> bool:
    return isinstance(kind, inspect.NoneType)


def _plural(text: str) -> str:
    for word in ("whole number", "number", "table", "list"):
        if text.startswith(word):
            return word + "s" + text.removeprefix(word)
    return "texts" if text == "text" else text


def _number(number: Any) -> str:
    return f"{number:,}" if isinstance(number, int) else f"{number:g}"


def _toml(found: Any) -> str:
    match found:
        case bool():
            return str(found).lower()
        case int() if abs(found) >= 10_000:
            return f"{found:_}"
        case str():
            return f'"{found}"'
        case list() | tuple():
            return f"[{', '.join(map(_toml, found))}]"
        case dict():
            return f"{{{', '.join(f'{key} = {_toml(one)}' for key, one in found.items())}}}"
    return str(found)


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def anchor(title: str) -> str:
    """The anchor of a heading on GitHub."""
    kept = "".join(one for one in title.lower() if one.isalnum() or one in " -_")
    return kept.replace(" ", "-")
