"""The live driver of one machine: clock, timers, order of a flush, admission.

Decisions
---------

- **No circular wait.** On a tree a full link holds back the neighbours behind it, link by link down
  to the publishers. If links make cycles (`Shape.has_cycles`) back pressure can form a circle
  (`tests/runtime/links/test_full_links.py`: a ring of three deadlocks), so neighbours are always
  read there, and each broker bounds the publications of its own clients that are under way
  (`runtime/driving/waiting/admission.py`): a link then reports QoS 0 publications, too, as settled.
  The alternative, credits per link and route, needs every broker to know the routes of all others.
"""
