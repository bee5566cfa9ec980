"""BlueDove: a cluster of dispatchers and matchers instead of a tree.

Decisions
---------

- **In BlueDove a publisher's dispatcher keeps its order.** What matchers find comes back to it and
  goes on to the homes when all before it has (`lines.py`): it knows which publications are still
  under way, so nobody guesses, and links keep the rest. Matchers may die, segments move and matches
  be repeated; order is decided once, behind all that. The other design was a buffer at each home,
  which holds a publication until those before it have come: but a home does not know whether those
  are for it. It would have to be told, for every publisher, up to where all is matched, by one more
  message per publication and home, and to wait for a bounded time where that stays out, so order
  would hold only mostly. Keeping a publisher at one matcher is none: its publications lie in
  different segments. The price is one link more on the way, and that a publication for a place that
  nobody serves holds back those behind it until it is served again. What a message says to its own
  broker is bounded alike: whoever hands a publication back is not tried again before the next tick.
- **What a matcher serves only it says.** Others' word about it is never its own entry
  (`members.py`): of an earlier life it makes a newer entry or, if it began as if it were new, joins
  anew.
"""
