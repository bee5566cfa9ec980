"""Progress of a command of several steps: the current step, and a line per finished step.

Everything goes to stderr. On a terminal the current step turns and counts its seconds; elsewhere
the lines of finished steps are written, and every half minute the current step.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from shoal.cli.support.still import duration, told


class CommandStep:
    """A step under way; `result` becomes part of its line when it ends."""

    def __init__(self, progress: Progress, bars: Sequence[str]) -> None:
        self.result = ""
        self._progress = progress
        self._bars = [progress.add_task(f"  {name}", total=1.0) for name in bars]

    def show_share(self, bar: int, share: float, name: str | None = None) -> None:
        """Fill the bar with this index to a share of 0 to 1; `name` is its new name."""
        description = None if name is None else f"  {name}"
        self._progress.update(self._bars[bar], completed=share, description=description)

    def shares(self) -> str:
        """Return how far each bar is, in words: `, replay 40 %`; empty without bars."""
        return "".join(
            f", {task.description.strip()} {task.completed:.0%}"
            for task in self._progress.tasks
            if task.id in self._bars
        ).replace("%", " %")

    def close(self) -> None:
        for bar in self._bars:
            self._progress.remove_task(bar)


class CommandSteps:
    """Use as `with CommandSteps() as steps: with steps.step("reading") as step: ...`."""

    def __init__(self) -> None:
        self._console = Console(stderr=True, highlight=False)
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            TimeElapsedColumn(),
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal,
        )

    def __enter__(self) -> CommandSteps:
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._progress.stop()

    @contextmanager
    def step(self, name: str, bars: Sequence[str] = ()) -> Iterator[CommandStep]:
        """One step, with a bar per name in `bars`; its line is written when it succeeds."""
        started = time.monotonic()
        task = self._progress.add_task(name, total=None)
        step = CommandStep(self._progress, bars)
        try:
            with told(
                lambda: f"{name}{step.shares()}, {duration(time.monotonic() - started)}",
                on_terminal=self._console.is_terminal,
            ):
                yield step
        finally:
            step.close()
            self._progress.remove_task(task)
        line = f"{time.monotonic() - started:6.1f} s  {name}"
        text = f"{line}: {step.result}" if step.result else line
        self._console.print(text, soft_wrap=True, markup=False)
