"""Sources of publications: declarations, files as rows, rows as publications or rejects.

A row has one meaning, defined on Arrow's columns (`values`, `times`, `row_parser`): one loop calls
that for small inputs, and Spark by `DataFrame.mapInArrow` for each split of the files.  The
alternative was another engine for small inputs, DuckDB or Polars.  It would read 300,000 rows as
fast, but its casts, time patterns and texts of numbers differ from Spark's in details, so that each
row would still be defined twice.
"""
