"""Sources of publications: declarations, files as rows, rows as publications or rejects.

A row has one meaning, defined on Arrow's columns (`values`, `times`, `row_parser`): one loop calls
that for small inputs, and Spark by `DataFrame.mapInArrow` for each split of the files.  The
alternative was another engine for small inputs, DuckDB or Polars.  Both have their own casts and
time patterns, so that each row would still be defined twice, once for them and once for Spark.
"""
