"""An HTTP service that knows users: it answers as told, and records requests."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

# The answer to a request: a status code and a body.
Answer = Callable[[dict[str, Any]], tuple[int, bytes]]


def answering(code: int = 200, **fields: Any) -> Answer:
    """Always the same answer."""
    return lambda said: (code, json.dumps(fields).encode())


class Service:
    """`answer` may change; while `is_slow` nothing is answered."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.is_slow = False
        self.asked: list[dict[str, Any]] = []
        self.headers: list[str] = []
        self.under_way = self.most_under_way = 0
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                lengths = [
                    int(line.partition(":")[2])
                    for line in head.splitlines()
                    if line.lower().startswith("content-length:")
                ]
                body = await reader.readexactly(sum(lengths))
                self.headers.append(head)
                self.under_way += 1
                self.most_under_way = max(self.under_way, self.most_under_way)
                said = json.loads(body) if body else {}
                self.asked.append(said)
                while self.is_slow:
                    await asyncio.sleep(0.01)
                await asyncio.sleep(0)  # other requests may come meanwhile
                code, text = self.answer(said)
                self.under_way -= 1
                writer.write(f"HTTP/1.1 {code} so\r\nContent-Length: {len(text)}\r\n\r\n".encode())
                writer.write(text)
                await writer.drain()
        except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def serving(answer: Answer) -> AsyncIterator[Service]:
    service = Service(answer)
    server = await asyncio.start_server(service.serve, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    service.url = f"http://{host}:{port}/users"
    try:
        yield service
    finally:
        service.is_slow = False
        server.close()
