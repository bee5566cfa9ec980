"""Reads small files of rows without Spark, since Spark's start alone takes longer."""
