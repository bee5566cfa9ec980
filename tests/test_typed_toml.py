"""Typed TOML: errors name the key, and overrides are typed like the file."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import pytest

from shoal.typed_toml import TomlError, convert, override, read_table


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Circle(msgspec.Struct, frozen=True, tag_field="kind", tag="circle"):
    radius: Annotated[int, msgspec.Meta(ge=1)] = 1


class Square(msgspec.Struct, frozen=True, tag_field="kind", tag="square"):
    side: int = 1
    label: str = ""


class Mark(msgspec.Struct, frozen=True):
    at_us: int

    def __post_init__(self) -> None:
        if self.at_us == 13:
            raise ValueError("at_us: 13 is unlucky")


class Drawing(msgspec.Struct, frozen=True, kw_only=True):
    title: str
    colour: Colour = Colour.RED
    style: Literal["plain", "bold"] = "plain"
    scale: float = 1.0
    shape: Circle | Square = Circle()
    marks: tuple[Mark, ...] = ()


def draw(data: dict[str, Any], *settings: str) -> Drawing:
    data = {"title": "t", **data}
    return convert(data, Drawing, "d.toml", override(data, settings, Drawing))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"colr": 1}, "d.toml: colr: unknown key; did you mean colour?"),
        (
            {"xyzzy": 1},
            "d.toml: xyzzy: unknown key; known here: title, colour, style, scale, shape, marks",
        ),
        (
            {"shape": {"kind": "square", "sides": 2}},
            "d.toml: shape.sides: unknown key; did you mean side?",
        ),
        (
            {"shape": {"kind": "square", "radius": 2}},
            "d.toml: shape.radius: unknown key; known here: side, label",
        ),
        (
            {"shape": {"kind": "oval"}},
            "d.toml: shape.kind: 'oval' is none; use one of circle, square",
        ),
        ({"shape": {"radius": 2}}, "d.toml: shape.kind: is missing; use one of circle, square"),
        ({"shape": 3}, "d.toml: shape: expected a table, got a whole number"),
        (
            {"shape": {"kind": "circle", "radius": 0}},
            "d.toml: shape.radius: expected a whole number >= 1",
        ),
        ({"colour": "green"}, "d.toml: colour: 'green' is unknown; use one of red, blue"),
        ({"style": "x"}, "d.toml: style: 'x' is unknown; use one of bold, plain"),
        ({"title": 4}, "d.toml: title: expected text, got a whole number"),
        (
            {"marks": [{"at_us": 1}, {"at": 2}]},
            "d.toml: marks[1].at: unknown key; did you mean at_us?",
        ),
        ({"marks": [{}]}, "d.toml: marks[0].at_us: is missing"),
        ({"marks": [{"at_us": 13}]}, "d.toml: marks[0].at_us: 13 is unlucky"),
        ({"marks": 5}, "d.toml: marks: expected a list, got a whole number"),
    ],
)
def test_errors_name_the_key(data: dict[str, Any], message: str) -> None:
    with pytest.raises(TomlError) as caught:
        draw(data)
    assert str(caught.value) == message


def test_an_error_names_the_page_of_its_key() -> None:
    pages = {"": "drawing.md", "shape": "shapes.md"}
    for data, page in (
        ({"colr": 1}, "drawing.md"),
        ({}, "drawing.md"),
        ({"title": "t", "shape": {"kind": "oval"}}, "shapes.md"),
    ):
        with pytest.raises(TomlError, match=rf"^d\.toml: .* \({page}\)$"):
            convert(data, Drawing, "d.toml", pages=pages)


def test_a_missing_key_is_an_error() -> None:
    with pytest.raises(TomlError, match=r"^d\.toml: title: is missing$"):
        convert({}, Drawing, "d.toml")


def test_overrides_are_typed_like_the_file() -> None:
    drawing = draw(
        {},
        "title=42",
        "scale=2",
        "colour=blue",
        "shape.kind=square",
        "shape.label='true'",
        "shape.side=7",
        "marks=[{at_us=1}, {at_us=2}]",
    )
    assert drawing == Drawing(
        title="42",
        scale=2.0,
        colour=Colour.BLUE,
        shape=Square(side=7, label="true"),
        marks=(Mark(1), Mark(2)),
    )


def test_an_override_of_the_kind_drops_keys_of_the_former_kind() -> None:
    before = {"shape": {"kind": "square", "side": 4}}
    # The order on the command line does not matter.
    assert draw(before, "shape.radius=3", "shape.kind=circle").shape == Circle(3)
    before = {"shape": {"kind": "square", "side": 4}}
    assert draw(before, "shape.kind=square", "shape.label=x").shape == Square(4, "x")


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("title", "--set title: write key.path=value"),
        ("=3", "--set =3: write key.path=value"),
        ("shape..side=3", "--set shape..side=3: write key.path=value"),
        ("title.x=3", "--set title.x: title is not a table"),
        ("scale=fast", "--set: scale: expected a number, got text"),
        ("shape.radius=0", "--set: shape.radius: expected a whole number >= 1"),
        ("shap.radius=1", "--set: shap: unknown key; did you mean shape?"),
        ("shape.radios=1", "--set: shape.radios: unknown key; did you mean radius?"),
    ],
)
def test_wrong_overrides_are_errors(setting: str, message: str) -> None:
    with pytest.raises(TomlError) as caught:
        draw({"shape": {"kind": "circle"}}, setting)
    assert str(caught.value) == message


def test_unreadable_files_are_errors(tmp_path: Path) -> None:
    with pytest.raises(TomlError, match=r"nowhere\.toml: cannot be read: No such file"):
        read_table(tmp_path / "nowhere.toml")
    broken = tmp_path / "broken.toml"
    broken.write_text("a = 1\nb = = 2\n")
    with pytest.raises(TomlError, match=r"broken.toml: .*line 2, column 5"):
        read_table(broken)
    broken.write_bytes(b"a = '\xff'")
    with pytest.raises(TomlError, match="byte 5 is not UTF-8"):
        read_table(broken)
