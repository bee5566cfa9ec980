"""Moves, leaves, exchanges of links, swaps of positions and sessions in every order of messages.

Decisions
---------

- **States are not copied.** A state of a machine is the sequence of inputs that it has taken. The
  effect of one more input is computed once, by a replay, and used in every state of the network
  that contains it (`tests/exploration/machine_states.py`). A move with a link that breaks has some
  70,000 states of the network and 1,300 of its machines. A fault is noticed after everything sent
  before it has arrived, since detection takes seconds. Plays without this restriction judge
  everything but losses.
"""
