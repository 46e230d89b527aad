"""How far a long run is, on a terminal."""

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn


def progress_bar(console: Console, done: str, beside: str, width: int = 20) -> Progress:
    """Both texts are templates of a task, as rich has them. It goes when the run ends."""
    return Progress(
        TextColumn(done),
        BarColumn(width),
        TextColumn(beside),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
