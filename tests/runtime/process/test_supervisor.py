"""Questions to brokers that are killed or busy meanwhile."""

from __future__ import annotations

import asyncio

import pytest

from shoal.runtime.addresses import Address
from shoal.runtime.operations import caller
from shoal.runtime.supervisor import get_json


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{", OSError),
        (b"", OSError),
        (b"HTTP/1.1 200 OK\r\n\r\nwhat", OSError),
        (None, TimeoutError),
    ],
)
def test_a_missing_answer_times_out(
    said: bytes | None, problem: type[OSError], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(caller, "ANSWER_S", 0.2 if said is None else 20)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        if said is None:
            await reader.read()  # until the caller has gone
        else:
            writer.write(said)
        writer.close()

    async def run() -> None:
        async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
            with pytest.raises(OSError) as found:  # noqa: PT011
                await get_json(Address(*server.sockets[0].getsockname()[:2]), "/status")
            assert isinstance(found.value, problem)

    asyncio.run(run())
