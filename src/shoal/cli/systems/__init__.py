"""What commands do for single systems, a room for each; `registry.py` has the list.

Commands know no system by name.  What all systems have in common follows from
`shoal.overlays.registry`; what only some have, as who should be elsewhere on a ring, or which links
are recommended, stands here: who plans, who advises, and what is shown of the last decisions.
"""
