"""The loops that are compiled to machine code; the only modules that import numba."""
