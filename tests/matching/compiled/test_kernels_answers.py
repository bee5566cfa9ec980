"""The kernels that assemble answers, against lists."""

from __future__ import annotations

import itertools

import numpy as np

from shoal.matching.compiled.kernels.answers import copy_ids, drop_removed, name_once


def runs(random: np.random.Generator, points: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    counts = random.integers(0, 5, points)
    begins = np.concatenate(([0], np.cumsum(counts)[:-1]))
    return random.integers(0, 20, counts.sum()).astype(np.uint32), begins, counts


def test_ids_of_two_parts_are_joined() -> None:
    random = np.random.default_rng(1)
    parts = [runs(random, 30) for _ in range(2)]
    ids = random.permutation(20)
    counts = sum(part[2] for part in parts)
    offsets = np.concatenate(([0], np.cumsum(counts)))
    out, cursor = np.empty(offsets[-1], np.int64), offsets[:-1].copy()
    for part in parts:
        copy_ids(ids, random.permutation(30), *part, cursor, out)
    for point in range(30):
        expected = [ids[members[b : b + c]].tolist() for members, b, c in joined_runs(parts, point)]
        flat = [each for run in expected for each in run]
        assert out[offsets[point] : offsets[point + 1]].tolist() == flat
    assert cursor.tolist() == offsets[1:].tolist()


def joined_runs(
    parts: list[tuple[np.ndarray, ...]], point: int
) -> list[tuple[np.ndarray, int, int]]:
    return [(members, begins[point], counts[point]) for members, begins, counts in parts]


def test_removed_members_leave_their_runs() -> None:
    random = np.random.default_rng(2)
    members, begins, counts = runs(random, 50)
    numbers = random.integers(0, 12, 20)
    kept = random.random(12) < 0.5
    expected = [
        [int(each) for each in members[begin : begin + count] if kept[numbers[each]]]
        for begin, count in zip(begins, counts, strict=True)
    ]
    drop_removed(kept, numbers, members, begins, counts)
    got = [members[b : b + c].tolist() for b, c in zip(begins, counts, strict=True)]
    assert got == expected


def test_each_number_occurs_once_per_point() -> None:
    random = np.random.default_rng(3)
    members, begins, _ = runs(random, 50)
    offsets = np.append(begins, len(members))
    expected = [list(dict.fromkeys(members[a:b].tolist())) for a, b in itertools.pairwise(offsets)]
    kept, numbers = name_once(members.astype(np.int64), offsets, 19)
    assert [numbers[a:b].tolist() for a, b in itertools.pairwise(kept)] == expected
