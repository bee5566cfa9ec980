"""Systems: ways to route among brokers, each in a folder of its own.

Decisions
---------

- **A system declares facts; no code tests for a system by name.** `System` has a shape (it checks
  given links, makes missing ones, and declares whether brokers open their own), whether brokers may
  store publications for disconnected neighbours, whether they send nothing when idle, the
  parameters for given brokers, and the size of a new network. Sections of files, options of `shoal
  up`, the report and the contract suite follow from these. The alternative is a base class with a
  hook for each: it would put the drivers' questions into the machine, which answers inputs and
  nothing else.
"""
