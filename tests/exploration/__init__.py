"""Moves, leaves and exchanges of links in every order of messages.

Decisions
---------

- **What is explored is not copied.** A state is the inputs that a pure machine has taken; what
  comes of one more is computed once, by playing them again, whichever of the many networks it is
  met in (`tests/exploration/lives.py`). A move with a link that breaks is some 70,000 states of the
  network and 1,300 of its machines. Faults are noticed when what was said before them has arrived,
  as detection takes seconds; played without that, all is judged but losses.
"""
