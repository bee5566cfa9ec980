"""A scenario as processes, and a workload through them.

Decisions
---------

- **A replay measures at the brokers, not at itself.** Messages are the brokers' own counters,
  between two moments at which the whole network rests (nothing kept for anybody, nothing counted,
  twice in a row); hops are in their traces. What brokers say to each other about clients that moved
  is traced as well, and taken off, since the simulator has no such clients; the report says how
  much it was. Delays are shown and not predicted: a simulator forecasts no machine.
"""
