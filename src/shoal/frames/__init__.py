"""Tables in memory, matched without Spark: `match_frame` takes pandas, Polars and Arrow."""

from shoal.frames.matching import match_frame

__all__ = ["match_frame"]
