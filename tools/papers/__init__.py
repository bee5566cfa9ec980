"""The tables of `PAPERS.md` and of the papers' pages, from measurements that the repository keeps.

`shoal reproduce all` measures; `python -m tools.papers keep FOLDER --commit C` keeps what it found
in `evaluations/`; `python -m tools.papers` writes the tables anew, and `--check` names stale ones.
"""
