"""Small files of rows without Spark, whose start alone takes longer."""
