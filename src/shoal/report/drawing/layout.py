"""Geometry of the drawings: fit into a box, keep points apart, draw a tree from its centre.

>>> fit({"a": (0.0, 0.0), "b": (2.0, 1.0)}, 100, 100, 10)
{'a': (10.0, 30.0), 'b': (90.0, 70.0)}
>>> layout = tree_layout(["a", "b", "c"], [("a", "b"), ("b", "c")])
>>> layout["b"] == (0, 0)
True
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection, Mapping, Sequence

import numpy as np

Point = tuple[float, float]

# Points closer than this (pixels of the drawing) cannot be told apart or pointed at.
APART = 19.0
# A drawing has room for this many at full size; more are drawn smaller and closer.
FULL_SIZE_POINTS = 90
# Enough for clusters of tens of brokers; a drawing that is not settled by then is still readable.
SPREAD_ROUNDS = 120
# Beyond this many points the drawing is a texture, and every pair would be compared.
SPREAD_LIMIT = 1_500


def size_factor(points: int) -> float:
    """Return how much smaller than at full size discs and distances are, 0 to 1."""
    return min(1.0, math.sqrt(FULL_SIZE_POINTS / max(points, 1)))


def fit(
    points: Mapping[str, Point],
    width: float,
    height: float,
    margin: float,
    *,
    stretch: bool = False,
) -> dict[str, Point]:
    """Scale and shift points into the box inside the margin, centred; `stretch` both axes apart."""
    xs = [x for x, _ in points.values()]
    ys = [y for _, y in points.values()]
    across, down = max(xs) - min(xs), max(ys) - min(ys)
    wide, high = width - 2 * margin, height - 2 * margin
    x_scale = wide / across if across else math.inf
    y_scale = high / down if down else math.inf
    if not stretch:
        x_scale = y_scale = min(x_scale, y_scale)
    x_scale, y_scale = (scale if math.isfinite(scale) else 0.0 for scale in (x_scale, y_scale))
    left = (width - across * x_scale) / 2 - min(xs) * x_scale
    top = (height - down * y_scale) / 2 - min(ys) * y_scale
    return {name: (left + x * x_scale, top + y * y_scale) for name, (x, y) in points.items()}


def spread(points: Mapping[str, Point]) -> dict[str, Point]:
    """Push points that are closer than APART (less, if they are many) away from each other."""
    if len(points) < 2 or len(points) > SPREAD_LIMIT:
        return dict(points)
    apart = APART * size_factor(len(points))
    names = sorted(points)
    place = np.array([points[name] for name in names])
    # Points in one place need a direction to leave in; the golden angle never repeats one.
    angles = np.arange(len(names)) * 2.399963
    place = place + 0.01 * np.column_stack((np.cos(angles), np.sin(angles)))
    for _ in range(SPREAD_ROUNDS):
        offset = place[:, None, :] - place[None, :, :]
        distance = np.hypot(offset[..., 0], offset[..., 1])
        np.fill_diagonal(distance, np.inf)
        short = np.clip(apart - distance, 0.0, None)
        if short.max() < 0.25:
            break
        place = place + (offset / distance[..., None] * short[..., None]).sum(axis=1) * 0.3
    return {name: (float(x), float(y)) for name, (x, y) in zip(names, place, strict=True)}


def circles(brokers: Sequence[str], inside: Collection[str]) -> dict[str, Point]:
    """Brokers on a circle, evenly; those `inside` on one of half its size, if there are others."""
    outer = [broker for broker in brokers if broker not in inside] or list(brokers)
    inner = [broker for broker in brokers if broker not in outer]
    points = {}
    for radius, ring in ((1.0, outer), (0.5, inner)):
        for number, broker in enumerate(ring):
            angle = 2 * math.pi * number / len(ring)
            points[broker] = (radius * math.cos(angle), radius * math.sin(angle))
    return points


def tree_layout(brokers: Sequence[str], links: Sequence[tuple[str, str]]) -> dict[str, Point]:
    """The overlay on circles around its centre; every subtree gets the angle its leaves need.

    Links that close a cycle do not change the layout; parts that are not connected are drawn as
    if they hung on one invisible broker in the middle.
    """
    neighbours: dict[str, list[str]] = {broker: [] for broker in brokers}
    for left, right in links:
        neighbours[left].append(right)
        neighbours[right].append(left)
    roots = []
    children: dict[str, list[str]] = {}
    for broker in brokers:
        if broker not in children:
            root = _centre(broker, neighbours)
            roots.append(root)
            children |= _children(root, neighbours)
    leaves: dict[str, int] = {}
    for broker in reversed(children):
        leaves[broker] = sum(leaves[child] for child in children[broker]) or 1
    points: dict[str, Point] = {}
    turn = 2 * math.pi / sum(leaves[root] for root in roots)
    start = 0.0
    pending = deque[tuple[str, float, int]]()
    for root in roots:
        pending.append((root, start, 0 if len(roots) == 1 else 1))
        start += leaves[root] * turn
    while pending:
        broker, start, depth = pending.popleft()
        angle = start + leaves[broker] * turn / 2
        points[broker] = (depth * math.cos(angle), depth * math.sin(angle))
        for child in children[broker]:
            pending.append((child, start, depth + 1))
            start += leaves[child] * turn
    return points


def _children(root: str, neighbours: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Breadth first from the root: each broker's children, in the order brokers are reached."""
    children: dict[str, list[str]] = {root: []}
    pending = deque([root])
    while pending:
        broker = pending.popleft()
        for neighbour in sorted(neighbours[broker]):
            if neighbour not in children:
                children[neighbour] = []
                children[broker].append(neighbour)
                pending.append(neighbour)
    return children


def _centre(start: str, neighbours: Mapping[str, Sequence[str]]) -> str:
    """The middle of a longest path of the tree that `start` is in."""
    end = list(_children(start, neighbours))[-1]
    parents: dict[str, str] = {}
    reached = _children(end, neighbours)
    for broker, below in reached.items():
        parents |= dict.fromkeys(below, broker)
    path = [list(reached)[-1]]
    while path[-1] in parents:
        path.append(parents[path[-1]])
    return path[len(path) // 2]
