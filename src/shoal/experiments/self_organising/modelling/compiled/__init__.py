"""A run of the fast model in one compiled loop, for interest of three by the mean (Eq. 6).

It does what `SelfOrganisingModel` does, in the same order, with arrays in the place of objects. A
test finds the same runs by both.

| module | content |
| --- | --- |
| `arrays` | the state of a run |
| `notifications` | the subtree of each type, and what its notifications cost |
| `broadcasts` | what brokers know of each other, and links that pay |
| `exchanges` | proposals on their way around their cycles, and exchanges |
| `run` | events in the order of time |

Source: Cost and Interest, sections 4.1 (Eq. 4 to 10) and 4.2.
"""
