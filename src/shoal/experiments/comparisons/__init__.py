"""`shoal study`: one scenario in many settings, each over several seeds, compared pair by pair.

| module | contents |
| --- | --- |
| `design.py` | factors, their settings, and the scenarios of all runs |
| `runs.py` | a run: simulate, compare with the truth, keep the metrics |
| `results.py` | medians with their intervals; differences from the reference over the same seeds |
| `page.py` | the content of the pages, and the tables |
| `study.py` | the steps: the truth of each workload, the runs, the conclusion |
| `data.py` | the pipeline's part: truths, summaries |
"""
