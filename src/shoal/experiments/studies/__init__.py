"""Common parts of the evaluations of papers: options, runs that are continued, claims, pages."""
