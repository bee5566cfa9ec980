"""Publishers that move over links that may be exchanged."""
