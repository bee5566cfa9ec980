"""What every test shares."""

from __future__ import annotations

from hypothesis import settings

# Same examples on every run and machine; a failure prints the example that failed.
settings.register_profile("shoal", derandomize=True, deadline=None, print_blob=True)
settings.load_profile("shoal")
