"""An error about a key of a file names the key, and the page that explains it."""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import msgspec
import pytest
from msgspec import inspect

from shoal.client.bridges import bridge_file
from shoal.experiments.scenarios import scenario
from shoal.overlays import registry
from shoal.overlays.registry import SYSTEMS
from shoal.pipeline.sources import declaration
from shoal.pipeline.sources.declaration import MappingError
from shoal.runtime import network_file
from shoal.typed_toml import TomlError

# No key takes this.
WRONG = [[[True]]]
UNKNOWN = "qqqq"

Path = tuple[str | int, ...]


class Kind(NamedTuple):
    """A kind of file: how it is read, the least that it can say, and its tables."""

    read: Callable[[dict[str, Any]], object]
    least: dict[str, Any]
    table: Any
    page: str
    # Tables that stand beside it, with a page of their own.
    beside: dict[str, tuple[Any, str]]


SYSTEMS_TABLES = {name: (SYSTEMS[name].parameters, registry.PAGE) for name in registry.MODULES}
KINDS = {
    "network": Kind(
        network_file.parse_network,
        {"name": "n", "brokers": [{"name": "B1", "peers": "127.0.0.1:0"}]},
        network_file.NetworkFile,
        network_file.PAGE,
        SYSTEMS_TABLES,
    ),
    "scenario": Kind(
        scenario.parse_scenario,
        {"name": "s", "workload": {"path": "w"}},
        scenario._Common,
        scenario.PAGE,
        SYSTEMS_TABLES,
    ),
    "declaration": Kind(
        lambda data: declaration.decode_mapping(msgspec.toml.encode(data).decode(), "sites.toml"),
        {"publisher": ["a"], "time": {"column": "t"}, "columns": {"a": "string"}},
        declaration.Mapping,
        declaration.PAGE,
        {},
    ),
    "bridge": Kind(
        lambda data: bridge_file.parse_bridge(data, "bridge.toml"),
        {"here": {"address": "a:1"}, "there": {"address": "b:1"}, "out": [{"topic": "t"}]},
        bridge_file.Bridge,
        bridge_file.PAGE,
        {},
    ),
}


def tables(kind: inspect.Type, path: Path = (), tag: str = "") -> Iterator[tuple[Path, Any, str]]:
    """Where tables can stand, what each is, and its `kind` where there are several."""
    match kind:
        case inspect.StructType():
            yield path, kind, tag
            for field in kind.fields:
                yield from tables(field.type, (*path, field.encode_name))
        case inspect.UnionType():
            for one in kind.types:
                name = str(one.tag) if getattr(one, "tag_field", None) else ""
                yield from tables(one, path, name)
        case inspect.ListType() | inspect.VarTupleType():
            yield from tables(kind.item_type, (*path, 0))
        case inspect.DictType():
            yield from tables(kind.value_type, (*path, "some-name"))


def with_value(least: dict[str, Any], path: Path, tag: str, key: str, value: object) -> Any:
    """The least that a file says, with one key more in the table at `path`."""
    copied = msgspec.json.decode(msgspec.json.encode(least))
    at: Any = copied
    for place, step in enumerate(path):
        empty: Any = [] if path[place + 1 : place + 2] == (0,) else {}
        if isinstance(at, list):
            if not at:
                at.append({})
            at = at[0]
        else:
            if not isinstance(at.get(step), type(empty)):
                at[step] = empty
            at = at[step]
    if tag:
        at["kind"] = tag
    at[key] = value
    return copied


def written(path: Path, key: str) -> str:
    text = ""
    for step in (*path, key):
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text


def cases() -> Iterator[Any]:
    for name, kind in KINDS.items():
        trees = [((), kind.table, kind.page)]
        trees += [((table,), of, page) for table, (of, page) in kind.beside.items()]
        for root, of, page in trees:
            for path, table, tag in tables(inspect.type_info(of), root):
                keys = [UNKNOWN, *(field.encode_name for field in table.fields)]
                # A network's tables of systems have the systems' names.
                keys = [key for key in keys if (name, path, key) != ("network", (), "parameters")]
                yield pytest.param(
                    name, path, tag, keys, page, id=f"{name}-{written(path, tag or 'table')}"
                )


@pytest.mark.parametrize(("name", "path", "tag", "keys", "page"), list(cases()))
def test_errors_about_keys_name_them_and_their_page(
    name: str, path: Path, tag: str, keys: list[str], page: str
) -> None:
    kind = KINDS[name]
    for key in keys:
        data = with_value(kind.least, path, tag, key, WRONG)
        with pytest.raises((TomlError, MappingError)) as caught:
            kind.read(data)
        said = str(caught.value)
        assert written(path, key) in said, said
        assert said.endswith(f"({page})"), said


def test_every_table_is_visited() -> None:
    visited = list(cases())
    assert len(visited) > 60
    assert typing.get_type_hints(scenario._WRITTEN).keys() >= SYSTEMS_TABLES.keys()
