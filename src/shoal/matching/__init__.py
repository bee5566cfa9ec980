"""Publications to the filters that match them; filters against filters."""

from shoal.matching.index import MatchIndex
from shoal.matching.relations import covers, overlaps
from shoal.matching.semantics import evaluate, matches

__all__ = ["MatchIndex", "covers", "evaluate", "matches", "overlaps"]
