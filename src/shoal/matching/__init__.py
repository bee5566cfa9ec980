"""Publications to the filters that match them; filters against filters."""

from shoal.matching.index import MatchIndex
from shoal.matching.relations import covers, overlaps
from shoal.matching.semantics import evaluate, matches
from shoal.matching.topic_filters import TopicError, check_topic, read_topic_filter, topic_matches
from shoal.matching.topic_store import TopicStore
from shoal.matching.topics import TopicIndex, TopicSubscription

__all__ = [
    "MatchIndex",
    "TopicError",
    "TopicIndex",
    "TopicStore",
    "TopicSubscription",
    "check_topic",
    "covers",
    "evaluate",
    "matches",
    "overlaps",
    "read_topic_filter",
    "topic_matches",
]
