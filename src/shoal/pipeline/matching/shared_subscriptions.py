"""Subscriptions as a file that Spark carries to every worker, and that each process reads once.

The file is an artifact of the session: Spark sends it to a machine once, without a shared disk, in
a classic session and by Spark Connect. Its name is the digest of its content, so that a process
which has its index already recognises it. A closure would be sent with each job, and, by Spark
Connect, with each task.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import hashlib
import pickle
import tempfile
from collections import OrderedDict
from pathlib import Path
from typing import NamedTuple

from pyspark import SparkFiles
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import DataType

from shoal.frames.subscriptions import SubscriptionFrame
from shoal.frames.work_folders import remove_abandoned, work_folder

# Tables of subscriptions whose indexes a worker's process keeps.
_KEPT = 2
_PREFIX = "shoal-subscriptions-"


class SharedSubscriptions(NamedTuple):
    """Subscriptions that workers load by the name of their file, or from `content`."""

    name: str
    attributes: tuple[str, ...]
    id_type: DataType
    content: bytes | None = None

    def load(self) -> SubscriptionFrame:
        """Return them in a task of Spark, with the index that this process has made of them."""
        if self.content is None:
            return _loaded(self.name)
        if self.name not in _UNPACKED:
            while len(_UNPACKED) >= _KEPT:
                _UNPACKED.popitem(last=False)
            _UNPACKED[self.name] = pickle.loads(self.content)
        return _UNPACKED[self.name]


# Subscriptions that came with a query, by their names.
_UNPACKED: OrderedDict[str, SubscriptionFrame] = OrderedDict()


def share(
    spark: SparkSession, subscriptions: SubscriptionFrame, *, with_query: bool = False
) -> SharedSubscriptions:
    """Make subscriptions known to all workers of a session.

    `with_query` sends them in the query itself: the tasks of a stream by Spark Connect do not see
    the artifacts of the session that started it.
    """
    content = pickle.dumps(subscriptions, protocol=pickle.HIGHEST_PROTOCOL)
    name = f"{_PREFIX}{hashlib.sha256(content).hexdigest()}"
    id_type = from_arrow_type(subscriptions.ids.type)
    if with_query:
        return SharedSubscriptions(name, subscriptions.attributes, id_type, content)
    path = _folder() / name
    if not path.exists():
        path.write_bytes(content)
    spark.addArtifacts(str(path), file=True)
    return SharedSubscriptions(name, subscriptions.attributes, id_type)


@functools.cache
def _folder() -> Path:
    """Return a folder for as long as this process is there: workers that come later ask for it."""
    parent = Path(tempfile.gettempdir())
    remove_abandoned(_PREFIX, parent)
    stack = contextlib.ExitStack()
    atexit.register(stack.close)
    return stack.enter_context(work_folder(_PREFIX, parent))


@functools.lru_cache(maxsize=_KEPT)
def _loaded(name: str) -> SubscriptionFrame:
    found: SubscriptionFrame = pickle.loads(Path(SparkFiles.get(name)).read_bytes())
    return found
