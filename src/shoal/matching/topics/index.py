"""The topic index: which subscriptions to MQTT topic filters, and to content, match a publication.

Filters without wildcards are found by one look-up of the whole topic, the others in a trie of
levels that is walked once per topic.  All subscriptions to one topic filter share its leaf: those
that ask for content too are in a match index of their own there, so that ten thousand of them are
not tested one by one.  Of each shared group one member is chosen: of those that match, the one
served longest ago, which is round robin in the order of joining when all of them match.

>>> from shoal.language import parse
>>> index = TopicIndex()
>>> index.add("s1", "flights/+/delays")
>>> index.add("s2", "flights/#", parse("dep_delay > 30"), payload={"qos": 1})
>>> for worker in ("w1", "w2"):
...     index.add(worker, "$share/workers/flights/UA/delays")
>>> index.match("flights/UA/delays", {"dep_delay": 45})
['w1', 's2', 's1']
>>> index.match("flights/UA/delays", {"dep_delay": 5}), index["s2"].payload
(['w2', 's1'], {'qos': 1})

Source: MQTT Version 5.0, sections 4.7 and 4.8.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Hashable, Iterator, Sequence
from itertools import count
from typing import Any, NamedTuple

from shoal.ledger import Ledger
from shoal.matching.filed.largest import Largest
from shoal.matching.given import checked
from shoal.matching.index import MatchIndex
from shoal.matching.topics.filters import TopicFilter, read_topic_filter
from shoal.matching.topics.memory import TopicMemory
from shoal.matching.topics.trie import Trie
from shoal.model import EVERYTHING, Attributes, Filter

# Leaves that are visited in one step; a leaf with a content filter counts as so many places more.
STEP = 1_000
CONTENT_PLACES = 4
# Of no more filters it is looked for one in their middle.
_FEW = 5_000
# A walk that others' topic filters come in between begins anew so many times.
MOST_BEGUN = 10


class TopicSubscription(NamedTuple):
    """Entry of an id: topic filter, content filter, and the user's data."""

    topic_filter: str
    filter: Filter
    payload: Any


class Overview:
    """Work for a publication to a topic.

    places    the nodes of the trie that are looked at and the subscriptions that get all of it
    leaves    the topic filters that match
    filters   most filters to evaluate on its attributes
    ids       the subscriptions that get all of it, in the order of `TopicIndex.match`
    is_open   true if the topic alone does not decide: some filters test content, or group members
              take turns
    asks      true if the result depends on attributes: else they need not be read
    """

    __slots__ = ("asks", "filters", "ids", "is_open", "leaves", "places")

    def __init__(self) -> None:
        self.places = self.leaves = self.filters = 0
        self.ids: list[Any] = []
        self.is_open = self.asks = False

    def put(self, leaves: Sequence[_Leaf]) -> None:
        """Some topic filters more."""
        ids, before = self.ids, len(self.ids)
        for leaf in leaves:
            if leaf.plain:
                ids += leaf.plain
            if leaf.content is not None:
                self.filters += leaf.content.most_candidates
                self.is_open = self.asks = True
            if leaf.groups:
                self.is_open = True
                asked = sum(group.most_candidates for group in leaf.groups.values())
                self.filters += asked
                self.asks = self.asks or asked > 0
        self.places += len(ids) - before


class TopicIndex:
    """Subscriptions by id, and the question which of them match a topic and its attributes.

    Ids are any hashable values; adding an id again replaces its subscription. The order of the ids
    in an answer, and turns in a group, depend only on the sequence of additions, removals and
    matches.
    """

    def __init__(self) -> None:
        self._subscriptions: dict[Hashable, TopicSubscription] = {}
        self._exact: dict[str, _Leaf] = {}
        self._trie: Trie[_Leaf] = Trie()
        # Until the set of topic filters changes: most publishers send to the same few topics again
        # and again.
        self._cache: TopicMemory[_Found] = TopicMemory()
        # number of additions and removals of topic filters
        self._changes = 0
        # Of leaves with wildcards, any of which may match; of the others only one does.
        self._wild_weight = 0
        # number of ids that `asked` has returned
        self._asked = 0
        self._exact_weights = Largest()

    def register(self, ledger: Ledger) -> None:
        self._cache.register(ledger, "subscriptions of topics")

    def __len__(self) -> int:
        return len(self._subscriptions)

    def __contains__(self, id: Hashable) -> bool:
        return id in self._subscriptions

    def __iter__(self) -> Iterator[Hashable]:
        return iter(self._subscriptions)

    def __getitem__(self, id: Hashable) -> TopicSubscription:
        """Return the entry of this id."""
        return self._subscriptions[id]

    def add(
        self, id: Hashable, topic_filter: str, filter: Filter = EVERYTHING, payload: Any = None
    ) -> None:
        """Take in a subscription, in place of the one under this id.

        TopicError for a topic filter that MQTT does not allow, FilterError for a content filter
        with too large a normal form; nothing is changed then.
        """
        parts = read_topic_filter(topic_filter)
        filter.normal_form  # noqa: B018  # computed here so that its error is met before any change
        if id in self._subscriptions:
            self.remove(id)
        self._subscriptions[id] = TopicSubscription(topic_filter, filter, payload)
        leaf = self._leaf(parts)
        if leaf is None:
            leaf = _Leaf()
            if parts.has_wildcards:
                self._trie.hang(parts.levels, leaf)
            else:
                self._exact["/".join(parts.levels)] = leaf
            self._changed()
        before = leaf.weight
        leaf.add(id, filter, parts.group)
        self._weighs(parts, before, leaf.weight)

    def remove(self, id: Hashable) -> None:
        """Forget a subscription; KeyError if there is none under this id."""
        topic_filter, filter, _ = self._subscriptions.pop(id)
        parts = read_topic_filter(topic_filter)
        leaf = self._leaf(parts)
        assert leaf is not None
        before = leaf.weight
        leaf.remove(id, filter, parts.group)
        self._weighs(parts, before, leaf.weight)
        if leaf.is_empty():
            if parts.has_wildcards:
                self._trie.take_down(parts.levels)
            else:
                del self._exact["/".join(parts.levels)]
            self._changed()

    def _weighs(self, parts: TopicFilter, before: int, after: int) -> None:
        """Update the weight of a leaf."""
        if parts.has_wildcards:
            self._wild_weight += after - before
        else:
            self._exact_weights.changed(before, after)

    @property
    def most_candidates(self) -> int:
        """Return how many subscriptions may have to be looked at, whatever the topic and
        attributes.
        """
        return self._wild_weight + self._exact_weights.value

    def weigh(self, topic: str, attributes: Attributes) -> tuple[int, int]:
        """As `MatchIndex.weigh`, of all content filters that this topic leads to."""
        tests = found = 0
        for leaf in self._leaves(topic):
            for content in (leaf.content, *(group.content for group in leaf.groups.values())):
                if content is not None:
                    more, matching = content.weigh(attributes)
                    tests += more
                    found += matching
        return tests, found

    def _changed(self) -> None:
        self._cache.clear()
        self._changes += 1

    def match(self, topic: str, attributes: Attributes) -> list[Any]:
        """The ids of the subscriptions that get a publication, each once.

        Chooses, and thereby moves on, one member of each shared group that has one to match.
        """
        attributes = checked(attributes)
        found: list[Any] = []
        for leaf in self._leaves(topic):
            found += leaf.plain
            if leaf.content is not None:
                found += leaf.content.match_checked(attributes)
            for group in leaf.groups.values():
                found += group.choose(attributes)
        return found

    def match_each(self, topic: str, publications: Sequence[Attributes]) -> list[list[Any]]:
        """As `match`, for each of several publications to one topic, in their order."""
        return self.match_each_checked(topic, [checked(each) for each in publications])

    def match_each_checked(self, topic: str, publications: Sequence[Attributes]) -> list[list[Any]]:
        """As `match_each`, without a check of the values' types."""
        leaves = self._leaves(topic)
        only = leaves[0] if len(leaves) == 1 else None
        if only is not None and only.content is not None and not (only.plain or only.groups):
            return only.content.match_each_checked(publications)
        answers: list[list[Any]] = [[] for _ in publications]
        deque(self.matching(topic, publications, answers), maxlen=0)
        return answers

    def matching(
        self, topic: str, publications: Sequence[Attributes], answers: list[list[Any]]
    ) -> Iterator[int]:
        """`match_each_checked` bit by bit, to the end of these; yields how many places it took.

        Until it ends the index must not change.
        """
        places = 0
        for leaf in self._leaves(topic):
            places += 1
            found: Sequence[list[Any]] = ()
            if leaf.content is not None:
                found = leaf.content.match_each_checked(publications)
                places += CONTENT_PLACES
            for number, answer in enumerate(answers):
                answer += leaf.plain
                if found:
                    answer += found[number]
                for group in leaf.groups.values():
                    answer += group.choose(publications[number])
                    places += CONTENT_PLACES
            if places >= STEP:
                yield places
                places = 0

    def asked(self, topic: str, most: int) -> Iterator[tuple[Any, list[Any], int]]:
        """Of each topic filter that matches: an id of those that ask for no content, and how many
        there are; then None, so many of those that do, and how many there are.

        Members of groups are left out. The ids differ from one call to the next. A topic without a
        recent match gets no answer: the walk may take long.
        """
        found = self._cache.get(topic)
        for leaf in () if found is None else found.leaves:
            if leaf.plain:
                yield next(iter(leaf.plain)), [], len(leaf.plain)
            if leaf.content is not None:
                count = len(leaf.content)
                self._asked += most
                start = self._asked % count if count <= _FEW else 0
                some = leaf.content.ids_from(start, most)
                if some:
                    yield None, some, count

    def prepare(self, topic: str, attributes: Attributes, work_us: float) -> bool:
        """As `MatchIndex.prepare`; no group member is chosen."""
        for leaf in self._leaves(topic):
            for content in (leaf.content, *(group.content for group in leaf.groups.values())):
                if content is not None and not content.prepare(attributes, work_us):
                    return False
        return True

    def search(self, topic: str) -> Iterator[int]:
        """Find the topic filters that match a topic bit by bit; yields how many places that were.

        From the beginning again where they change meanwhile, and where they do so each time, in one
        go.  Then they are known until they change.
        """
        begun = 0
        while topic not in self._cache:
            changes, places = self._changes, 0
            begun += 1
            exact = self._exact.get(topic)
            found = [] if exact is None else [exact]
            for seen in self._trie.search(topic, found):
                places += seen
                if begun > MOST_BEGUN:
                    continue
                yield seen
                if self._changes != changes:
                    break
            else:
                self._cache.keep(topic, _Found(tuple(found), places), len(found))

    def survey(self, topic: str, overview: Overview) -> Iterator[int]:
        """Estimate the work for a publication to a topic, a bit at each step.

        Yields how many places were looked at.  Subscriptions of topic filters that are there must
        not change until it ends.
        """
        yield from self.search(topic)
        leaves, overview.places = self._cache[topic]
        overview.leaves = len(leaves)
        if len(leaves) <= STEP:
            overview.put(leaves)
            return
        for start in range(0, len(leaves), STEP):
            before = len(overview.ids)
            overview.put(leaves[start : start + STEP])
            yield STEP + len(overview.ids) - before

    def asks_for_content(self, topic: str) -> bool:
        """Return whether an answer for this topic depends on attributes: else they need not be
        read.
        """
        return self._overview(topic).asks

    def match_topic(self, topic: str) -> list[Any] | None:
        """The answer for every publication to this topic, until a subscription changes.

        None if there is none: where content is asked for, and where members take turns.
        """
        overview = self._overview(topic)
        return None if overview.is_open else overview.ids

    def _overview(self, topic: str) -> Overview:
        overview = Overview()
        deque(self.survey(topic, overview), maxlen=0)
        return overview

    def _leaf(self, parts: TopicFilter) -> _Leaf | None:
        """The leaf of one topic filter, if it is there."""
        if parts.has_wildcards:
            return self._trie.leaf(parts.levels)
        return self._exact.get("/".join(parts.levels))

    def _leaves(self, topic: str) -> tuple[_Leaf, ...]:
        """The leaves of all topic filters that match."""
        found = self._cache.get(topic)
        if found is None:
            leaves, places = self._trie.walk(topic)
            exact = self._exact.get(topic)
            if exact is not None:
                leaves.insert(0, exact)
            found = _Found(tuple(leaves), places)
            self._cache.keep(topic, found, len(leaves))
        return found.leaves


class _Found(NamedTuple):
    """Result of a walk for one topic, and its number of nodes."""

    leaves: tuple[_Leaf, ...]
    nodes: int


# In place of a dictionary of its own for each leaf that has none.
_NO_GROUPS: dict[str, Any] = {}


class _Leaf:
    """All subscriptions to one topic filter."""

    __slots__ = ("_asked", "content", "groups", "plain")

    def __init__(self) -> None:
        self.plain: dict[Hashable, None] = {}
        self.content: MatchIndex | None = None
        self.groups: dict[str, _TopicGroup] = _NO_GROUPS
        # The candidates of all groups.
        self._asked = 0

    @property
    def weight(self) -> int:
        """Return how many of its subscriptions may have to be looked at, and groups."""
        asked = 0 if self.content is None else self.content.most_candidates
        return len(self.plain) + asked + len(self.groups) + self._asked

    def is_empty(self) -> bool:
        return not self.plain and self.content is None and not self.groups

    def add(self, id: Hashable, filter: Filter, group: str | None) -> None:
        if group is not None:
            if self.groups is _NO_GROUPS:
                self.groups = {}
            members = self.groups.setdefault(group, _TopicGroup())
            before = members.most_candidates
            members.add(id, filter)
            self._asked += members.most_candidates - before
        elif filter == EVERYTHING:
            self.plain[id] = None
        else:
            if self.content is None:
                self.content = MatchIndex()
            self.content.add(id, filter)

    def remove(self, id: Hashable, filter: Filter, group: str | None) -> None:
        if group is not None:
            members = self.groups[group]
            before = members.most_candidates
            members.remove(id)
            self._asked += members.most_candidates - before
            if members.is_empty():
                del self.groups[group]
        elif filter == EVERYTHING:
            del self.plain[id]
        else:
            assert self.content is not None
            self.content.remove(id)
            if not len(self.content):
                self.content = None


class _TopicGroup:
    """The members of a shared subscription, with their turns.

    A turn is a number that grows: a member gets one when it joins and a new one when it is chosen,
    so that the member with the lowest turn has waited longest.
    """

    __slots__ = ("content", "plain", "turns", "waiting")

    def __init__(self) -> None:
        self.turns = count()
        # Members that take everything in the order of their turns, which are their values.
        self.plain: OrderedDict[Hashable, int] = OrderedDict()
        self.waiting: dict[Hashable, int] = {}
        self.content: MatchIndex | None = None

    def is_empty(self) -> bool:
        return not self.plain and not self.waiting

    @property
    def most_candidates(self) -> int:
        """As `MatchIndex.most_candidates`."""
        return 0 if self.content is None else self.content.most_candidates

    def add(self, id: Hashable, filter: Filter) -> None:
        if filter == EVERYTHING:
            self.plain[id] = next(self.turns)
            return
        if self.content is None:
            self.content = MatchIndex()
        self.content.add(id, filter)
        self.waiting[id] = next(self.turns)

    def remove(self, id: Hashable) -> None:
        if id in self.plain:
            del self.plain[id]
            return
        del self.waiting[id]
        assert self.content is not None
        self.content.remove(id)
        if not self.waiting:
            self.content = None

    def choose(self, attributes: Attributes) -> list[Hashable]:
        """Return the member with the lowest turn among those that match, and move it to the end."""
        waiting = self.waiting
        matching = [] if self.content is None else self.content.match_checked(attributes)
        first = min(matching, key=waiting.__getitem__) if matching else None
        if self.plain:
            plain = next(iter(self.plain))
            if not matching or self.plain[plain] < waiting[first]:
                self.plain[plain] = next(self.turns)
                self.plain.move_to_end(plain)
                return [plain]
        if not matching:
            return []
        waiting[first] = next(self.turns)
        return [first]
