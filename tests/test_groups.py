"""Groups against a dict of lists."""

from __future__ import annotations

from random import Random

import pytest

from shoal.groups import Groups


def test_after_any_history_groups_are_as_a_dict_of_lists() -> None:
    random = Random(7)
    groups: Groups[str, int] = Groups()
    expected: dict[str, list[int]] = {}
    for _ in range(3_000):
        key, member = random.choice("abc"), random.randrange(4)
        known = expected.get(key, [])
        match random.choice(("add", "add", "remove", "remove", "take")):
            case "add":
                groups.add(key, member)
                expected[key] = known if member in known else [*known, member]
            case "remove" if member in known:
                groups.remove(key, member)
                expected[key] = [each for each in known if each != member]
            case "remove":
                with pytest.raises(KeyError):
                    groups.remove(key, member)
            case "take" if random.random() < 0.3:
                assert groups.take(key) == expected.pop(key, [])
        assert {each: groups.of(each) for each in groups.keys} == {
            each: members for each, members in expected.items() if members
        }
        for each in "abcd":
            assert list(groups.within(each)) == expected.get(each, [])
