"""Texts of `$every` and `$changed`: what they mean, and what is refused with which advice."""

from __future__ import annotations

import pytest

from shoal.language.conflation_rules import (
    ConflationCostError,
    ConflationRuleError,
    read_conflation,
)


@pytest.mark.parametrize(
    ("text", "every_us"),
    [
        ("100ms", 100_000),
        ("10s", 10_000_000),
        ("0.5s", 500_000),
        (" 10 s ", 10_000_000),
        ("5m", 300_000_000),
        ("24h", 86_400_000_000),
    ],
)
def test_intervals(text: str, every_us: int) -> None:
    rule = read_conflation(text, "")
    assert rule is not None
    assert rule.every_us == every_us


def test_values_stand_behind_by_and_commas() -> None:
    rule = read_conflation("1s by `a, BY b`, c", "x BY 2, y")
    assert rule is not None
    assert [value.text for value in rule.by] == ["`a, BY b`", "c"]
    assert [(each.value.text, each.least) for each in rule.changes] == [("x", 2), ("y", None)]
    assert rule.key_of("t", {"a, BY b": 1, "c": True}) == ("t", 1, True)
    assert rule.values_of({"y": "on"}) == (None, "on")


@pytest.mark.parametrize(
    ("every", "changed", "advice"),
    [
        ("10", "", "write 500ms, 10s, 5m or 1h"),
        ("99ms", "", "from 100ms to 24h"),
        ("25h", "", "from 100ms to 24h"),
        ("99999999999999999999999999h", "", "from 100ms to 24h"),
        ("1s BY", "", "write 500ms"),
        ("1s BY a BY b", "", "BY stands once"),
        ("1s BY a,", "", "there is no value"),
        ("1s BY 1st", "", "1st"),
        ("1s BY " + ",".join("abcdefghijklmnopq"), "", "at most 16 values"),
        ("1s BY a <", "", "line 1, column 3"),
        ("", "CAST(a AS INT)", "TRY_CAST"),
        ("", "a BY b", "write a number above 0"),
        ("", "a BY 0", "write a number above 0"),
        ("", "a BY true", "write a number above 0"),
        ("", "a BY 1 BY 2", "BY stands once"),
        ("", "`a", "is not closed"),
        ("", ",", "there is no value"),
        ("", "a" * 4_097, "at most 4,096 characters"),
    ],
)
def test_refusals_say_what_can_be_written(every: str, changed: str, advice: str) -> None:
    with pytest.raises(ConflationRuleError, match=advice):
        read_conflation(every, changed)


def test_values_are_expressions() -> None:
    rule = read_conflation("1s BY substring(name, 1, 2)", "round(temp * 1.8 + 32, 1) BY 0.5")
    assert rule is not None
    assert rule.key_of("t", {"name": "hello"}) == ("t", "he")
    assert rule.values_of({"temp": 21.37}) == (70.5,)
    assert rule.values_of({"temp": "warm"}) == (None,)


def test_a_quoted_comma_belongs_to_its_value() -> None:
    rule = read_conflation("", r"concat(a, ', BY ', b), coalesce(c, 'it\'s, so')")
    assert rule is not None
    assert [each.value.text[:6] for each in rule.changes] == ["concat", "coales"]


def test_rules_with_the_same_texts_are_equal() -> None:
    assert read_conflation(" 1s ", "a") == read_conflation("1s", "a ")
    assert read_conflation("1s", "a") != read_conflation("1s", "b")


def test_values_that_cost_too_much_are_refused() -> None:
    costly = "concat(" + ", ".join(["upper(lower(a))"] * 5) + ")"
    with pytest.raises(ConflationCostError, match="at most 2,000"):
        read_conflation("", costly)


def test_no_text_is_no_rule() -> None:
    assert read_conflation("", " ") is None
