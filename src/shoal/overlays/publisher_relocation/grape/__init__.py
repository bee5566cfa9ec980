"""GRAPE: a session's traces tell for every broker what a publisher would cost there."""
