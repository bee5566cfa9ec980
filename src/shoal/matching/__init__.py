"""Publications to the filters that match them; filters against filters."""

from shoal.matching.covering import CoveringSet, covering_set
from shoal.matching.decisions import Decisions
from shoal.matching.explain import Explanation, Verdict, explain
from shoal.matching.index import MatchIndex
from shoal.matching.limits import MAX_SEARCHES, MAX_TESTS, check_cost
from shoal.matching.relations import covers, overlaps
from shoal.matching.semantics import evaluate, matches
from shoal.matching.topic_filters import TopicError, check_topic, read_topic_filter, topic_matches
from shoal.matching.topic_store import TopicStore
from shoal.matching.topics import TopicIndex, TopicSubscription

__all__ = [
    "MAX_SEARCHES",
    "MAX_TESTS",
    "CoveringSet",
    "Decisions",
    "Explanation",
    "MatchIndex",
    "TopicError",
    "TopicIndex",
    "TopicStore",
    "TopicSubscription",
    "Verdict",
    "check_cost",
    "check_topic",
    "covering_set",
    "covers",
    "evaluate",
    "explain",
    "matches",
    "overlaps",
    "read_topic_filter",
    "topic_matches",
]
