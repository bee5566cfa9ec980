"""A matcher: it serves segments, and hands them over."""
