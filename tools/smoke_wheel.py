"""`python -m tools.smoke_wheel` builds the wheel, and tries it in an empty environment.

| install | what is tried |
| --- | --- |
| `shoal` | the version, `shoal match`, the answer to a missing extra, a broker and a client |
| `shoal[console]` | the console's page, if there is Node.js to build it with |
| `shoal[tables]` | `shoal simulate` |
| `shoal[pipeline]`, with `--pipeline` | from a CSV file to a summary of a simulation |

Each line has the duration of a step; after an install, the size of the packages. With `--keep
FOLDER` the environment and the wheel stay there. The wheel is built without an environment of its
own, so the running Python needs setuptools.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ("pyproject.toml", "setup.py", "README.md", "src", "web")
NO_SOURCES = ("__pycache__", "*.egg-info", "*.pyc", "node_modules")
READY_WITHIN_S = 30.0

SUBSCRIPTIONS = (
    {"id": "late", "filter": "carrier = 'UA' AND dep_delay > 30"},
    {"id": "west", "filter": "dest IN ('SFO', 'LAX')"},
)
PUBLICATIONS = (
    {"id": "p1", "attributes": {"carrier": "UA", "dep_delay": 45, "dest": "SFO"}},
    {"id": "p2", "attributes": {"carrier": "UA", "dest": "ORD"}},
)
NETWORK = """
name = "smoke"
[[brokers]]
name = "B1"
peers = "127.0.0.1:{peers}"
mqtt = "127.0.0.1:{mqtt}"
admin = "127.0.0.1:{admin}"
[access]
anonymous = true
"""
CLIENT = """
import asyncio, sys, shoal

async def main(address):
    async with shoal.Client(address) as client:
        async with client.subscribe("flights", where="dep_delay > 30") as late:
            await late.granted()
            await client.publish("flights", b"soon", attributes={"dep_delay": 3})
            await client.publish("flights", b"late", attributes={"dep_delay": 41})
            message = await asyncio.wait_for(late.get(), 20)
            assert message.payload == b"late", message

asyncio.run(main(sys.argv[1]))
"""
WORKLOAD = """
import sys
from pathlib import Path
import pyarrow as pa
import pyarrow.parquet as pq

folder = Path(sys.argv[1])
(folder / "events").mkdir(parents=True)
(folder / "events" / "_SUCCESS").touch()
broker = {"latitude": None, "longitude": None, "name": None}
subscription = {"client": "c", "broker": "B2", "publisher": "P", "rate_class": "high",
                "aimed_selectivity": 1.0, "measured_selectivity": 1.0, "filter": "x > 1"}
tables = {
    "brokers": [{"broker": f"B{n}", "rank": n, **broker} for n in (1, 2, 3)],
    "publishers": [{"publisher": "P", "advertisement_id": "P#0", "advertisement": "x >= 0",
                    "broker": "B3", "latitude": None, "longitude": None}],
    "subscriptions": [{"subscription": "s", **subscription}],
    "events/part-0": [{"publisher": "P", "sequence": n, "time_us": n, "replay_us": 1000 * n,
                       "attributes": {"x": n}}
                      for n in range(10)],
}
for name, rows in tables.items():
    pq.write_table(pa.Table.from_pylist(rows), folder / f"{name}.parquet")
"""
SCENARIO = 'name = "smoke"\nworkload.path = "{folder}"\nunderlay.kind = "constant"\n'
DECLARATION = """
publisher = ["station"]
time = { column = "at", format = "iso8601", zone = "UTC" }
[columns]
station = "string"
temperature = "double"
"""


class FailedError(Exception):
    """A step failed; has its name and its output."""


@contextmanager
def step(what: str) -> Iterator[None]:
    """Print the duration of a step."""
    began = time.monotonic()
    yield
    print(f"{what} ({time.monotonic() - began:.1f} s)", flush=True)


class Environment:
    """A virtual environment, and commands that see nothing of the running one."""

    def __init__(self, folder: Path) -> None:
        self.bin = folder / "bin"
        self._folder = folder
        kept = {"HOME", "LANG", "PATH", "TMPDIR", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"}
        self.variables = {
            name: value
            for name, value in os.environ.items()
            if name in kept or name.startswith("PIP_") or name.lower().endswith("_proxy")
        }
        run([sys.executable, "-m", "venv", "--without-pip", str(folder)], self.variables)

    def install(self, wheel: Path, extra: str) -> None:
        wanted = f"{wheel}[{extra}]" if extra else str(wheel)
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
        pip += ["--python", str(self.bin / "python"), "install"]
        with step(f"pip install 'shoal[{extra}]'" if extra else "pip install shoal"):
            constraints = str(ROOT / "constraints.txt")
            run([*pip, "--quiet", "-c", constraints, wanted], self.variables)
        print(f"{self.size_mib():.0f} MiB are installed", flush=True)

    def size_mib(self) -> float:
        (packages,) = self._folder.glob("lib/python*/site-packages")
        files = [path for path in packages.rglob("*") if path.is_file()]
        return sum(path.stat().st_size for path in files) / 2**20

    def shoal(self, *words: str, cwd: Path) -> str:
        return run([str(self.bin / "shoal"), *words], self.variables, cwd=cwd)

    def python(self, program: str, *words: str) -> str:
        return run([str(self.bin / "python"), "-c", program, *words], self.variables)


def run(
    words: list[str], variables: dict[str, str], *, cwd: Path | None = None, code: int = 0
) -> str:
    """The output of a command; FailedError unless it ends with this code."""
    found = subprocess.run(words, env=variables, cwd=cwd, capture_output=True, text=True)
    if found.returncode != code:
        raise FailedError(f"{' '.join(words)} ended with {found.returncode}:\n{found.stderr}")
    return found.stdout if code == 0 else found.stderr


def build(folder: Path) -> Path:
    """The wheel of this tree, made of a copy; FailedError if it lacks a file of the package."""
    copy = folder / "source"
    copy.mkdir()
    ignored = shutil.ignore_patterns(*NO_SOURCES)
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, copy / name, ignore=ignored)
        else:
            shutil.copy(ROOT / name, copy / name)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--quiet"]
    options = ["--no-deps", "--no-build-isolation", "--wheel-dir", str(folder)]
    run([*pip, *options, str(copy)], dict(os.environ))
    (wheel,) = folder.glob("shoal-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        packed = set(archive.namelist())
    package = copy / "src"
    wanted = {
        path.relative_to(package).as_posix()
        for path in (package / "shoal").rglob("*")
        if path.is_file()
    }
    if lacking := sorted(wanted - packed):
        raise FailedError(f"{wheel.name} lacks {', '.join(lacking)}")
    shutil.rmtree(copy)
    return wheel


def has_console(wheel: Path) -> bool:
    with zipfile.ZipFile(wheel) as archive:
        return "shoal/console/static/main.js" in archive.namelist()


def try_plain(environment: Environment, folder: Path) -> None:
    """The parts that need no extra."""
    with step("shoal --version and shoal match"):
        said = environment.shoal("--version", cwd=folder)
        if "kernels not compiled" not in said:
            raise FailedError(f"shoal --version says: {said}")
        for name, rows in (("subscriptions", SUBSCRIPTIONS), ("publications", PUBLICATIONS)):
            (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        files = [f"--{name}={name}.jsonl" for name in ("subscriptions", "publications")]
        said = environment.shoal("match", *files, cwd=folder)
        found = [json.loads(line)["subscriptions"] for line in said.splitlines()]
        if found != [["late", "west"], []]:
            raise FailedError(f"shoal match says: {said}")
    with step("what a missing extra is answered"):
        (folder / "scenario.toml").write_text(SCENARIO.format(folder="none"))
        words = [str(environment.bin / "shoal"), "simulate", "scenario.toml", "--out", "run"]
        said = run(words, environment.variables, cwd=folder, code=2)
        if "pip install 'shoal[tables]'" not in said:
            raise FailedError(f"shoal simulate says: {said}")


def try_broker(environment: Environment, folder: Path) -> None:
    """One broker, one client that publishes to itself, and the end of the broker."""
    ports = dict(zip(("peers", "mqtt", "admin"), free_ports(3), strict=True))
    (folder / "network.toml").write_text(NETWORK.format(**ports))
    with step("a broker, a publication through it, and its end"):
        words = [str(environment.bin / "shoal"), "serve", "network.toml", "--broker", "B1"]
        with (folder / "log").open("w") as log:
            broker = subprocess.Popen(
                words, cwd=folder, env=environment.variables, stdout=log, stderr=log
            )
        try:
            asyncio.run(ready(f"http://127.0.0.1:{ports['admin']}/ready", broker))
            environment.python(CLIENT, f"127.0.0.1:{ports['mqtt']}")
            broker.send_signal(signal.SIGTERM)
            if code := broker.wait(READY_WITHIN_S):
                raise FailedError(f"the broker ended with {code}")
        except BaseException:
            print((folder / "log").read_text(), file=sys.stderr)
            raise
        finally:
            with suppress(ProcessLookupError):
                broker.kill()
            broker.wait()


def try_console(environment: Environment, folder: Path) -> None:
    """The console's page, of a network whose broker does not run."""
    words = [str(environment.bin / "shoal"), "console", "network.toml", "--listen", "127.0.0.1:0"]
    with step("the console's page"):
        console = subprocess.Popen(
            words, cwd=folder, env=environment.variables, stdout=subprocess.PIPE, text=True
        )
        try:
            assert console.stdout is not None
            said = console.stdout.readline()
            url = said.rpartition(" ")[2].strip()
            if not url.startswith("http://"):
                raise FailedError(f"shoal console says: {said}")
            opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
            for address in (url, url.partition("?")[0] + "static/main.js"):
                with opener.open(address, timeout=READY_WITHIN_S) as answer:
                    if len(answer.read()) < 100:
                        raise FailedError(f"the console's answer to {address} is empty")
        finally:
            console.kill()
            console.wait()


async def ready(address: str, broker: subprocess.Popen[bytes]) -> None:
    async with asyncio.timeout(READY_WITHIN_S):
        while broker.poll() is None:
            try:
                with urllib.request.urlopen(address, timeout=4):
                    return
            except (urllib.error.URLError, ConnectionError):
                await asyncio.sleep(0.1)
    raise FailedError(f"the broker ended with {broker.returncode}")


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def try_simulation(environment: Environment, folder: Path) -> None:
    """Ten publications through three simulated brokers, of which one subscription wants eight."""
    with step("shoal simulate"):
        environment.python(WORKLOAD, str(folder / "workload"))
        (folder / "scenario.toml").write_text(SCENARIO.format(folder="workload"))
        environment.shoal("simulate", "scenario.toml", "--out", "run", cwd=folder)
        program = "import sys, pyarrow.parquet as pq; print(pq.read_table(sys.argv[1]).num_rows)"
        said = environment.python(program, str(folder / "run" / "deliveries.parquet"))
        if said.strip() != "8":
            raise FailedError(f"8 deliveries were expected, not {said.strip()}")


def try_pipeline(environment: Environment, folder: Path) -> None:
    """From a CSV file to a summary that is compared with the truth."""
    rows = [f"2024-01-01T00:00:{n:02},S{n % 3},{n}.5" for n in range(60)]
    (folder / "readings.csv").write_text("\n".join(["at,station,temperature", *rows, ""]))
    (folder / "stations.toml").write_text(DECLARATION)
    (folder / "own.toml").write_text(SCENARIO.format(folder="own"))
    with step("shoal ingest, workload, truth, simulate and summarise"):
        for words in (
            "ingest stations.toml readings.csv --out ingested",
            "workload ingested --brokers 3 --subscriptions 2 --out own",
            "truth own --out truth",
            "simulate own.toml --out own-run",
            "summarise own-run --truth truth --out summary",
        ):
            environment.shoal(*words.split(), cwd=folder)


def smoke(folder: Path, *, pipeline: bool) -> None:
    """Every part; FailedError for the first that fails."""
    with step("built and looked through"):
        wheel = build(folder)
    print(f"wheel: {wheel.name}, {wheel.stat().st_size / 2**20:.1f} MiB", flush=True)
    with step("an empty environment"):
        environment = Environment(folder / "environment")
    files = folder / "files"
    files.mkdir()
    environment.install(wheel, "")
    try_plain(environment, files)
    try_broker(environment, files)
    environment.install(wheel, "console")
    if has_console(wheel):
        try_console(environment, files)
    else:
        print("the wheel has no console: there is no Node.js to build it with", flush=True)
    environment.install(wheel, "tables")
    try_simulation(environment, files)
    if pipeline:
        environment.install(wheel, "pipeline")
        try_pipeline(environment, files)


def main() -> None:
    """Exit with 1 and the reason if a part fails."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pipeline", action="store_true", help="try the pipeline, too")
    parser.add_argument("--keep", type=Path, help="an empty folder for what is made")
    options = parser.parse_args()
    began = time.monotonic()
    try:
        if options.keep is not None:
            options.keep.mkdir(parents=True, exist_ok=True)
            smoke(options.keep.resolve(), pipeline=options.pipeline)
        else:
            with tempfile.TemporaryDirectory() as folder:
                smoke(Path(folder), pipeline=options.pipeline)
    except FailedError as error:
        sys.exit(f"wheel: {error}")
    print(f"wheel: all of it took {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
