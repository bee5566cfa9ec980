"""`array_contains` of a list and a constant, as an equality that an index looks up.

A list is an attribute of many values. A filter that demands an item of it is filed under the list
and the item; a message looks up each of its items.

>>> from shoal.language import parse
>>> [[demanded]] = parse("array_contains(tags, 'urgent')").normal_form
>>> listed_item(demanded)
ListedItem(name='tags', key='urgent')
>>> item_keys({"$list.tags": '["a",1,true,1.0,null]'}, "tags")
['a', 1, (True,)]
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, NamedTuple

from shoal.model import Operator, Predicate, Value
from shoal.model.expressions import (
    AttributeRef,
    FunctionCall,
    ItemRef,
    derived_expression,
    is_derived,
)
from shoal.model.expressions.lists import items_of


class ListedItem(NamedTuple):
    """The name of a list, and the key of an item: equal for equal values."""

    name: str
    key: Hashable


def listed_item(tested: Predicate) -> ListedItem | None:
    """The item that a test demands; None if it demands something else."""
    if (tested.operator, tested.operand) != (Operator.EQ, True):
        return None
    if not is_derived(tested.attribute):
        return None
    match derived_expression(tested.attribute):
        case FunctionCall(
            "exists",
            (
                AttributeRef(name),
                FunctionCall("=", (ItemRef(), bool() | int() | float() | str() as value)),
            ),
        ):
            return ListedItem(name, _key(value))
    return None


def item_keys(attributes: Mapping[str, Any], name: str) -> list[Hashable]:
    """The keys of the items of a message's list, each once."""
    items = items_of(attributes, name)
    return list(dict.fromkeys([_key(each) for each in items or () if each is not None]))


def _key(value: Value) -> Hashable:
    """To a dictionary 1 is TRUE."""
    return (value,) if type(value) is bool else value
