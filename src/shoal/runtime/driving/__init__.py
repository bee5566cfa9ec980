"""How the live driver runs one machine: clock, timers, order of a flush, admission.

Decisions
---------

- **Nobody waits in a circle.** On a tree a full link holds back the neighbours behind it, link by
  link down to who publishes. Where links make cycles (`Shape.has_cycles`) that is a circle sooner
  or later (`tests/runtime/links/test_full_links.py`: a ring of three stood still for ever), so
  neighbours are always read there, and each broker bounds what its own clients have under way
  (`runtime/driving/waiting/admission.py`): a link then says of QoS 0, too, when it is settled. The
  other design, credits per link and way, needs every broker to know the ways of all others.
"""
