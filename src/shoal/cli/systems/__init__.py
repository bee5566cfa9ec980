"""Command line parts of single systems, a package each; `registry.py` has the list.

Commands know no system by name. Common parts of all systems follow from `shoal.overlays.registry`;
parts of some systems only, as better places on a ring, or recommended links, are here: planning,
advice, and tables of recent decisions.
"""
