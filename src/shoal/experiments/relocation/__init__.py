"""The evaluation of POP and GRAPE: load and delay when publishers have moved."""
