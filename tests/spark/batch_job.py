"""Commits batch after batch as Spark's driver and tasks do, without Spark, until it is killed.

Run as `python batch_job.py NETWORK CHECKPOINT LAST`. Each start spreads a batch's rows anew.
"""

from __future__ import annotations

import json
import random
import sys
import uuid
from pathlib import Path

from shoal.log.offsets import write_whole
from shoal.log.remote import NO_LOGIN, RemoteLog
from shoal.log.staging.parts import Attempt
from shoal.log.staging.remote import RemoteStaging, commit_batch
from shoal.log.staging.staged_rows import StagedRow
from shoal.spark.sink_rows import staging_brokers

ROWS = 60


def rows_of(batch: int) -> list[str]:
    return [f"{batch} {number}" for number in range(ROWS)]


def main(network: str, checkpoint: Path, last: int) -> None:
    done = json.loads(checkpoint.read_text()) if checkpoint.exists() else 0
    print("streams", flush=True)
    for batch in range(done, last):
        logs = staging_brokers(network, NO_LOGIN)
        brokers = {name: RemoteStaging(RemoteLog(url)) for name, url in logs.items()}
        rows, attempts = random.sample(rows_of(batch), ROWS), list[Attempt]()
        while rows:
            some, rows = rows[: (cut := random.randint(1, ROWS))], rows[cut:]
            broker, name = random.choice(list(brokers)), uuid.uuid4().hex
            staged = (StagedRow("out", each.encode()) for each in some)
            count = brokers[broker].stage("q", batch, name, staged)
            attempts.append(Attempt(broker, name, count))
        commit_batch(brokers, "q", batch, attempts)
        write_whole(checkpoint, json.dumps(batch + 1).encode())


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
