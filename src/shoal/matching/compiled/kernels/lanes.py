"""The sizes of vector instructions, for kernels and for what prepares arrays for them."""

from __future__ import annotations

import numpy as np

# Boxes that are compared at once, and children of a node.
LANES = 32
# A set of lanes: a whole number, lane 0 its lowest bit.
Lanes = np.uint64

# `put_lanes` may write nonsense this far behind the end of what it counts.
PUT_MARGIN = 8
