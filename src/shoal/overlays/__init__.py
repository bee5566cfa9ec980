"""Systems: how brokers route, each in a folder of its own.

Decisions
---------

- **A system says facts; nobody asks which it is.** `System` has a shape (checks given links, makes
  them where nobody names any, says whether brokers open their own), whether brokers may store for
  who is away, whether they are quiet at rest, what its parameters are for these brokers, how large
  a new network is. Sections of files, options of `shoal up`, the report and the contract suite
  follow. The other design was a class to derive from, with a hook for each of these: it would have
  put the drivers' questions into the machine, which answers inputs and nothing else.
"""
