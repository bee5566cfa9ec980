"""Scenarios, runs of them, and the evaluations of papers.

Decisions
---------

- **`simulation` and `pipeline` do not know each other**, nor do `experiments` and `report`; they
  meet in files.
"""
