"""Whether kernels are compiled: by numba where it is installed, else NumPy does their work.

The environment variable `SHOAL_KERNELS=plain` chooses NumPy where numba is installed, too, for
tests and measurements.  Both give the same answers.
"""

from __future__ import annotations

import importlib.util
import os
from importlib import metadata

VARIABLE = "SHOAL_KERNELS"
# The extra to install for compiled kernels.
EXTRA = "shoal[fast]"


def compiles() -> bool:
    """Whether kernels become machine code in this process; imports nothing large."""
    return os.environ.get(VARIABLE) != "plain" and importlib.util.find_spec("numba") is not None


def described() -> str:
    """How kernels run here, in words."""
    if compiles():
        return f"kernels compiled by numba {metadata.version('numba')}"
    if os.environ.get(VARIABLE) == "plain":
        return f"kernels not compiled ({VARIABLE}=plain)"
    return f"kernels not compiled (numba is not installed: pip install '{EXTRA}')"
