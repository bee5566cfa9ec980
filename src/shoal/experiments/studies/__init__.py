"""What the evaluations of papers share: options, runs that are continued, claims, pages."""
