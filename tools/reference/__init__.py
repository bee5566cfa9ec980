"""Writes the reference (`docs/reference/`) from the typed code: `python -m tools.reference`.

A key's text is in its struct's docstring, an option's in the command's signature, a metric's where
it is made; no text is repeated here. A missing text is an error.
"""
