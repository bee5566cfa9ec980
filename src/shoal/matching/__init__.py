"""Publications to the filters that match them; filters against filters.

Decisions
---------

- **The index has two insides.** One publication at a time is looked up in plain Python (`filed/`):
  by the equalities that filters demand, then on ladders of thresholds, and where a filter has
  several comparisons among bitmaps of ranges, a bit for each filter. That is fastest for up to some
  80,000 filters that are alike but for their bounds; adding and removing stay cheap, and no search
  takes long because filters have changed. Beyond that, or if more than 1,000 filters would have to
  be tested one by one (LIKE, inequalities), the compiled parts are asked, for a whole batch at
  once; the number of tests is estimated without testing. Batches of columns, and filters loaded
  from arrays, go through immutable compiled parts (`parts.py`): packed trees of boxes with nodes
  that vector instructions test 32 at once, and tables of equalities. Numba is imported when they
  are first needed, and only by modules in `matching/compiled/kernels/`.
- **An expression is a derived attribute.** Its name is the expression, so that places, parts,
  covering and overlap know only attributes. An index adds the values of up to 256 of them to a
  message once (`derived.py`), of those that several tests have. Conjunctions whose own expressions
  are alike but for their constants are rows of a table that vector instructions test
  (`vector_evaluation.py`); other expressions are evaluated beside a conjunction's plain tests.
  Covering is exact on a derived attribute as on any other, and never compares two expressions:
  algebra would be wrong where sums are rounded or overflow.
- **A live index is levels of parts**, each at most half as large as the one before. Adding and
  removing never compile: a batch does, and merges levels as arrays, because parts give their rows
  back. When as many filters were removed as are left, all is made anew with only the values still
  demanded.
- **A broker asks for destinations.** A filter may carry one (`add(id, filter, destination)`);
  `match_destinations` ends when every destination is known, `matches_any` when one match is.
"""

from shoal.matching.classes import Classes
from shoal.matching.explain import Explanation, FilterVerdict, explain
from shoal.matching.index import MatchIndex
from shoal.matching.limits import MAX_SEARCHES, MAX_TESTS, check_cost
from shoal.matching.outcomes import Outcomes, OutcomesFactory
from shoal.matching.relations.covering import CoveringSet, covering_set
from shoal.matching.relations.decisions import covers, overlaps, prepare
from shoal.matching.relations.merging import Merging
from shoal.matching.relations.string_search import Work
from shoal.matching.semantics import evaluate, matches
from shoal.matching.topics.filters import TopicError, check_topic, read_topic_filter, topic_matches
from shoal.matching.topics.index import TopicIndex, TopicSubscription
from shoal.matching.topics.store import TopicStore

__all__ = [
    "MAX_SEARCHES",
    "MAX_TESTS",
    "Classes",
    "CoveringSet",
    "Explanation",
    "FilterVerdict",
    "MatchIndex",
    "Merging",
    "Outcomes",
    "OutcomesFactory",
    "TopicError",
    "TopicIndex",
    "TopicStore",
    "TopicSubscription",
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
