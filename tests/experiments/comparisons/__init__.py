"""Tests of `shoal study`."""
