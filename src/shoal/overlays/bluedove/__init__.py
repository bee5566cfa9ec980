"""BlueDove: a cluster of dispatchers and matchers instead of a tree.

Decisions
---------

- **A publisher's dispatcher keeps its order.** Matchers return their results to it, and it forwards
  each to the subscribers' dispatchers when all earlier ones have gone (`lines.py`): it knows the
  publications in transit, so no broker has to guess, and links keep the rest in order. Matchers may
  die, segments move and matches be repeated; order is decided once, behind all that. The
  alternative is a reordering buffer at each subscriber's dispatcher: but that dispatcher does not
  know whether missing publications are for it. It would need, for every publisher, the number up to
  which all are matched, in one more message per publication and dispatcher, and a timeout for
  losses, so order would be best effort. Pinning a publisher to one matcher is no alternative: its
  publications lie in different segments. The price is one more link on the path, and that a
  publication for an unserved place blocks those behind it until the place is served again. Messages
  of a broker to itself are bounded alike: a matcher that returns a publication is not tried again
  before the next tick.
- **Only a matcher itself announces what it serves.** Others' entries about it never replace its own
  (`members.py`): an entry of an earlier incarnation makes it write a newer one or, if it began as a
  new matcher, join again.
"""
