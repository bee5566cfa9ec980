"""The console before a large network: 100 brokers, 1,000 links, 100,000 clients.

The brokers are invented: one process speaks for all of them, and sends what brokers of that size
send. Printed are the console's processor time and memory, in Chromium the time of a page to its
first figures and of a happening to the page, and with `--minutes` the memory of the console and of
a page that stays open.

    python benchmarks/bench_console.py [--brokers 100] [--links 1000] [--seconds 30] [--minutes 60]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from shoal.runtime.free_ports import free_ports
from shoal.runtime.traffic.latency import BUCKETS

CLIENTS = 1_000
# Happenings a second of all brokers.
HAPPENINGS = 20
PAGES = 5


class InventedNetwork:
    """Brokers with links at random, and figures that change."""

    def __init__(self, brokers: int, links: int, ports: list[int]) -> None:
        self._random = random.Random(3)
        self.names = [f"B{number}" for number in range(brokers)]
        self.ports = ports
        pairs = {(self._random.randrange(number), number) for number in range(1, brokers)}
        while len(pairs) < links:
            one, other = sorted(self._random.sample(range(brokers), 2))
            pairs.add((one, other))
        self._neighbours: dict[int, list[int]] = {number: [] for number in range(brokers)}
        for one, other in pairs:
            self._neighbours[one].append(other)
            self._neighbours[other].append(one)

    def about(self, number: int) -> dict[str, Any]:
        known = [
            {"broker": name, "mqtt": "", "admin": f"127.0.0.1:{port}"}
            for name, port in zip(self.names, self.ports, strict=True)
        ]
        place = (self._random.uniform(30, 48), self._random.uniform(-120, -75))
        return {
            "broker": self.names[number],
            "place": place,
            "network": "invented",
            "system": "octopia",
            "version": "1",
            "protocol": 1,
            "listening": {},
            "brokers": known,
        }

    def figures(self, number: int) -> dict[str, Any]:
        vary = self._random.uniform
        return {
            "at_us": time.time_ns() // 1000,
            "uptime_s": time.monotonic(),
            "ready": True,
            "draining": False,
            "in_per_s": vary(500, 900),
            "published_per_s": vary(100, 200),
            "out_per_s": vary(500, 900),
            "deliveries_per_s": vary(500, 5000),
            "dropped_per_s": 0.0,
            "processor": vary(0.2, 0.6),
            "memory_bytes": 120_000_000,
            "disk_free_bytes": 10**12,
            "clients": CLIENTS,
            "sessions": CLIENTS,
            "subscriptions": 2 * CLIENTS,
            "queued_bytes": 10_000,
            "dropped": 0,
            "p50_ms": 3.0,
            "p99_ms": vary(20, 60),
            "p99_elsewhere_ms": 50.0,
            "delays": [self._random.randrange(100) for _ in range(len(BUCKETS) + 1)],
            "certificate_days": 80.0,
            "links": [
                {
                    "neighbour": self.names[other],
                    "state": "up",
                    "messages_per_s": vary(10, 100),
                    "bytes_in_per_s": vary(10**4, 10**5),
                    "bytes_out_per_s": vary(10**4, 10**5),
                    "waiting_bytes": self._random.randrange(5_000),
                    "spooled_bytes": 0,
                    "delay_ms": vary(1, 40),
                }
                for other in self._neighbours[number]
            ],
        }

    def happening(self, number: int) -> dict[str, Any]:
        other = self._random.choice(self.names)
        return {
            "at_us": time.time_ns() // 1000,
            "kind": "move",
            "text": f"publisher P{time.time_ns() // 10**6} moved",
            "why": "31 % fewer messages, paused for 210 ms",
            "client": "P",
            "source": self.names[number],
            "target": other,
        }

    async def serve(self, number: int) -> None:
        """Speak for one broker."""

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            request = await reader.readuntil(b"\r\n\r\n")
            if not request.startswith(b"GET /events"):
                rows = b'{"clients": [], "next": null}'
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(rows) + rows)
                writer.close()
                return
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
            _send(writer, "broker", self.about(number))
            _send(writer, "alerts", {"alerts": []})
            count = 0
            with suppress(ConnectionError):  # the console was stopped
                while True:
                    _send(writer, "figures", self.figures(number))
                    if self._random.random() < HAPPENINGS / len(self.names):
                        count += 1
                        _send(writer, "happened", self.happening(number), f"1:{count}")
                    await writer.drain()
                    await asyncio.sleep(1)

        await asyncio.start_server(answer, "127.0.0.1", self.ports[number])


def _send(writer: asyncio.StreamWriter, kind: str, data: Any, identifier: str = "") -> None:
    head = f"id: {identifier}\r\n" if identifier else ""
    writer.write(f"{head}event: {kind}\r\ndata: {json.dumps(data)}\r\n\r\n".encode())


def speak(brokers: int, links: int, ports: list[int]) -> None:
    """Speak for all brokers, until the process is stopped."""
    network = InventedNetwork(brokers, links, ports)

    async def run() -> None:
        for number in range(brokers):
            await network.serve(number)
        await asyncio.Event().wait()

    asyncio.run(run())


def used(process: int) -> tuple[float, float]:
    """A process's processor seconds, and its resident memory in MB."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    seconds = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return seconds, pages * os.sysconf("SC_PAGE_SIZE") / 1e6


NEWEST = """last => {
    const found = [...document.body.innerText.matchAll(/publisher P(\\d+) moved/g)];
    const newest = Math.max(0, ...found.map(each => Number(each[1])));
    return newest > last && newest;
}"""


def lag_ms(page: Any) -> float:
    """The median time from a happening at a broker until it is on the page."""
    last, lags = page.wait_for_function(NEWEST, arg=0).json_value(), []
    for _ in range(30):
        last = page.wait_for_function(NEWEST, arg=last).json_value()
        lags.append(1e3 * time.time() - last)
    return sorted(lags)[len(lags) // 2]


def look_at(url: str, console: int, minutes: int) -> None:
    """Print what a person waits for, and the memory of the console and of a page."""
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium")
    if chromium is None:
        print("pages: Chromium is not installed")
        return
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        context = browser.new_context(viewport={"width": 1300, "height": 1000})
        times: dict[str, list[float]] = {"network": [], "health": []}
        context.set_default_timeout(300_000)  # a machine may be busy meanwhile
        page = context.new_page()
        page.goto(url)
        base = url.partition("?")[0]
        for _ in range(PAGES):
            for name, path in (("network", ""), ("health", "health")):
                began = time.perf_counter()
                page.goto(f"{base}{path}")
                page.locator("main section").first.wait_for()
                times[name].append(1e3 * (time.perf_counter() - began))
        for name, found in times.items():
            print(f"page {name}: first figures after {sorted(found)[PAGES // 2]:.0f} ms (median)")
        page.goto(base)
        print(f"a happening is on the page after {lag_ms(page):.0f} ms (median)")
        for minute in range(0, minutes + 1, max(1, minutes // 6)):
            page.wait_for_timeout(60_000 * max(1, minutes // 6) if minute else 10_000)
            heap = page.evaluate("performance.memory.usedJSHeapSize") / 1e6
            print(f"after {minute} minutes: console {used(console)[1]:.0f} MB, page {heap:.1f} MB")
        browser.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--brokers", type=int, default=100)
    parser.add_argument("--links", type=int, default=1_000)
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--minutes", type=int, default=0)
    options = parser.parse_args()
    ports = free_ports("127.0.0.1", options.brokers)
    speaking = multiprocessing.Process(
        target=speak, args=(options.brokers, options.links, ports), daemon=True
    )
    speaking.start()
    time.sleep(2)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "network.toml"
        rows = [
            f'[[brokers]]\nname = "B{number}"\npeers = "127.0.0.2:{port}"\n'
            f'admin = "127.0.0.1:{port}"'
            for number, port in enumerate(ports)
        ]
        file.write_text("\n".join(['name = "invented"', 'system = "tco"', *rows]))
        command = [sys.executable, "-m", "shoal.cli.main", "console", str(file)]
        console = subprocess.Popen(
            [*command, "--listen", "127.0.0.1:0"], stdout=subprocess.PIPE, text=True
        )
        try:
            assert console.stdout is not None
            found = re.search(r"http://\S+", console.stdout.readline())
            if found is None:
                sys.exit("the console did not start")
            time.sleep(5)
            busy_s, memory = used(console.pid)
            time.sleep(options.seconds)
            later_s, later = used(console.pid)
            share = 100 * (later_s - busy_s) / options.seconds
            size = f"{options.brokers} brokers, {options.links} links"
            print(f"{size}: console {share:.1f} % of a core; {memory:.0f} MB, {later:.0f} MB later")
            look_at(found[0], console.pid, options.minutes)
        finally:
            console.kill()
            console.wait()


if __name__ == "__main__":
    main()
