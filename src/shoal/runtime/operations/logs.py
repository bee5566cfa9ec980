"""Structured logs: one JSON object per line, with the code's fields beside its message.

>>> record = logging.LogRecord("shoal.x", logging.INFO, "", 0, "link up", (), None)
>>> record.neighbour = "B2"
>>> JsonLines("B1").format(record).partition(", ")[2]
'"level": "info", "broker": "B1", "event": "link up", "neighbour": "B2"}'
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime

_STANDARD = frozenset(vars(logging.makeLogRecord({})))


class JsonLines(logging.Formatter):
    """Formats a record as one line of JSON; `extra` fields are keys of their own."""

    def __init__(self, broker: str) -> None:
        super().__init__()
        self._broker = broker

    def format(self, record: logging.LogRecord) -> str:
        row: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="microseconds"),
            "level": record.levelname.lower(),
            "broker": self._broker,
            "event": record.getMessage(),
        }
        extra = {key: value for key, value in vars(record).items() if key not in _STANDARD}
        row |= {key: value for key, value in extra.items() if key not in row}
        if record.exc_info:
            row["exception"] = self.formatException(record.exc_info)
        return json.dumps(row, default=str)


def start_logging(broker: str, level: str = "info") -> None:
    """Write this process's log to its standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines(broker))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    logging.getLogger("asyncio").setLevel(logging.WARNING)
    # Malformed input to the admin port is in the audit log, with its source address.
    logging.getLogger("uvicorn").setLevel(logging.ERROR)
