"""Measurements of the relocation study's runs, and their results."""
