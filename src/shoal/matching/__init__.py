"""Publications to the filters that match them; filters against filters."""

from shoal.matching.explain import Explanation, Verdict, explain
from shoal.matching.index import MatchIndex
from shoal.matching.limits import MAX_SEARCHES, MAX_TESTS, check_cost
from shoal.matching.outcomes import Outcomes
from shoal.matching.relations.covering import CoveringSet, covering_set
from shoal.matching.relations.decisions import covers, overlaps, prepare
from shoal.matching.relations.string_search import Work
from shoal.matching.semantics import evaluate, matches
from shoal.matching.topics.filters import TopicError, check_topic, read_topic_filter, topic_matches
from shoal.matching.topics.index import TopicIndex, TopicSubscription
from shoal.matching.topics.store import TopicStore

__all__ = [
    "MAX_SEARCHES",
    "MAX_TESTS",
    "CoveringSet",
    "Explanation",
    "MatchIndex",
    "Outcomes",
    "TopicError",
    "TopicIndex",
    "TopicStore",
    "TopicSubscription",
    "Verdict",
    "Work",
    "check_cost",
    "check_topic",
    "covering_set",
    "covers",
    "evaluate",
    "explain",
    "matches",
    "overlaps",
    "prepare",
    "read_topic_filter",
    "topic_matches",
]
