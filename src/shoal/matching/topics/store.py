"""Values by MQTT topic, and the reverse question: which stored topics does a filter match?

A mapping from topics to values, such as retained messages, that is also a trie of levels: `+`
looks at one level's children, `#` at everything below, and the rest of the store is never
visited.  Topics leave the trie with their values.

>>> store = TopicStore({"flights/UA/delays": 1, "flights/AA/delays": 2, "$SYS/uptime": 3})
>>> list(store.matching("flights/+/delays")), list(store.matching("#"))
(['flights/UA/delays', 'flights/AA/delays'], ['flights/UA/delays', 'flights/AA/delays'])
>>> del store["flights/UA/delays"]
>>> list(store.matching("flights/#")), store["$SYS/uptime"]
(['flights/AA/delays'], 3)

Source: MQTT Version 5.0, section 4.7.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from itertools import chain
from typing import Generic, TypeVar

from shoal.matching.topics.filters import ALL_LEVELS, ONE_LEVEL, check_topic, read_topic_filter

Stored = TypeVar("Stored")


# A level with more children has them in rows of so many, too.
ROW = 128


class _StoreNode:
    """One level of stored topics; `topic` is set where one ends.

    Of many children each is in a `row` of the `rows` as well.
    """

    __slots__ = ("children", "row", "rows", "topic")

    def __init__(self) -> None:
        self.children: dict[str, _StoreNode] = {}
        self.topic: str | None = None
        self.row: list[_StoreNode] = _NO_ROW
        self.rows: _Rows | None = None

    def add(self, level: str) -> _StoreNode:
        """A new child."""
        child = self.children[level] = _StoreNode()
        if self.rows is not None:
            self.rows.add(child)
        elif len(self.children) > ROW:
            self.rows = _Rows()
            for each in self.children.values():
                self.rows.add(each)
        return child

    def remove(self, level: str) -> None:
        child = self.children.pop(level)
        if self.rows is not None:
            self.rows.remove(child)

    def walk(self) -> Iterator[_StoreNode]:
        """The children that there are now, oldest first; some that go meanwhile are left out."""
        return iter(tuple(self.children.values())) if self.rows is None else self.rows.walk()


class _Rows:
    """The many children of one node, oldest first; they may come and go while some walk.

    A walk copies one row after the other: a copy of all, of 500,000, takes 10 ms.
    """

    __slots__ = ("_last", "_rows")

    def __init__(self) -> None:
        # By their identities: one that is empty goes.
        self._rows: dict[int, list[_StoreNode]] = {}
        # The only one that grows.
        self._last: list[_StoreNode] = []

    def add(self, node: _StoreNode) -> None:
        if not 0 < len(self._last) < ROW:
            self._last = []
            self._rows[id(self._last)] = self._last
        self._last.append(node)
        node.row = self._last

    def remove(self, node: _StoreNode) -> None:
        row = node.row
        row.remove(node)
        if not row:
            del self._rows[id(row)]

    def walk(self) -> Iterator[_StoreNode]:
        rows: list[Iterable[_StoreNode]] = list(self._rows.values())
        rows[-1:] = map(tuple, rows[-1:])
        return chain.from_iterable(map(tuple, rows))


_NO_ROW: list[_StoreNode] = []


class TopicStore(MutableMapping[str, Stored], Generic[Stored]):
    """A mapping from topics to values, in the order in which topics came.

    Storing under a topic that MQTT does not allow raises TopicError.
    """

    def __init__(self, values: Mapping[str, Stored] | None = None) -> None:
        self._values: dict[str, Stored] = {}
        self._root = _StoreNode()
        # Those that begin with `$`, which wildcards at the beginning do not match.
        self._reserved = _StoreNode()
        # number of levels of all topics; topics with a common beginning share them
        self.levels = 0
        self.update(values or {})

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __getitem__(self, topic: str) -> Stored:
        return self._values[topic]

    def __setitem__(self, topic: str, value: Stored) -> None:
        if topic not in self._values:
            check_topic(topic)
            node = self._reserved if topic[:1] == "$" else self._root
            for level in topic.split("/"):
                child = node.children.get(level)
                if child is None:
                    child = node.add(level)
                    self.levels += 1
                node = child
            node.topic = topic
        self._values[topic] = value

    def __delitem__(self, topic: str) -> None:
        del self._values[topic]
        levels = topic.split("/")
        way = [self._reserved if topic[:1] == "$" else self._root]
        for level in levels:
            way.append(way[-1].children[level])
        way[-1].topic = None
        while levels and way[-1].topic is None and not way[-1].children:
            way.pop()
            way[-1].remove(levels.pop())
            self.levels -= 1

    def lacking(self, topic: str) -> int:
        """Return how many levels there would be more with a topic."""
        node, levels = self._reserved if topic[:1] == "$" else self._root, topic.split("/")
        for depth, level in enumerate(levels):
            child = node.children.get(level)
            if child is None:
                return len(levels) - depth
            node = child
        return 0

    def matching(self, topic_filter: str) -> Iterator[str]:
        """Yield the stored topics that a filter matches; of a shared filter, those that its members
        subscribe to.

        TopicError for a filter that is not allowed.  The store must not change while this is read;
        make a list of it first.
        """
        return (topic for topic in self.search(topic_filter) if topic is not None)

    def search(self, topic_filter: str, nodes: int = 2**62) -> Iterator[str | None]:
        """As `matching`, with None after so many nodes that were visited.

        The store may change meanwhile: a topic that comes then may be left out, one that goes may
        still be among them.
        """
        levels = read_topic_filter(topic_filter).levels
        root = self._reserved if levels[0][:1] == "$" else self._root
        return self._search(root, levels, nodes)

    def _search(
        self, root: _StoreNode, levels: tuple[str, ...], nodes: int
    ) -> Iterator[str | None]:
        # Nodes to visit, next one last, with their depth.
        waiting: list[tuple[Iterator[_StoreNode], int]] = [(iter((root,)), 0)]
        left = nodes
        while waiting:
            walk, depth = waiting[-1]
            node = next(walk, None)
            if node is None:
                waiting.pop()
                continue
            left -= 1
            if not left:
                left = nodes
                yield None
            level = levels[depth] if depth < len(levels) else None
            if (level is None or level == ALL_LEVELS) and node.topic is not None:
                yield node.topic
            if level is None:
                continue
            if level not in (ONE_LEVEL, ALL_LEVELS):
                child = node.children.get(level)
                if child is not None:
                    waiting.append((iter((child,)), depth + 1))
            elif node.children:
                waiting.append((node.walk(), depth if level == ALL_LEVELS else depth + 1))
