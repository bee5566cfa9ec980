"""A process that matches a stream, and is killed when it has written some batches' pairs.

`python -m tests.pipeline.matching.killed_stream SOURCE FILE OUT BATCHES`
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from unittest import mock

from shoal.pipeline.matching import matching_stream
from shoal.pipeline.matching.matching_stream import match_stream, read_source
from shoal.pipeline.session import spark_session
from tests.pipeline.matching.test_matching_stream import engine


def main(source: str, file: str, out: Path, batches: int) -> None:
    """Match until so many batches are written; then this process ends as by `kill -9`."""
    whole = matching_stream.write_batch

    def last_words(*given: object) -> None:
        whole(*given)  # type: ignore[arg-type]
        if len(list(out.glob("batch=*"))) == batches:
            os.kill(os.getpid(), signal.SIGKILL)

    with (
        mock.patch.object(matching_stream, "write_batch", last_words),
        spark_session("killed", master="local[1]", memory="512m", is_brief=True) as spark,
    ):
        stream = read_source(spark, source, {"file": file})
        match_stream(stream, engine, out, only_what_is_there=True).awaitTermination()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]))
