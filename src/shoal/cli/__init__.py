"""The command line: `shoal` and its commands."""
