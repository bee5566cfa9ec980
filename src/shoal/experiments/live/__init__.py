"""A scenario as processes, and a workload through them.

Decisions
---------

- **A replay measures at the brokers, not at itself.** Messages are the brokers' own counters,
  between two moments at which the whole network rests (no queues, no change of a counter, twice in
  a row); hops are in their traces. Messages between brokers about clients that moved are traced as
  well, and subtracted, since the simulator has no such clients; the report gives their number.
  Delays are shown and not predicted: a simulator forecasts no machine.
"""
