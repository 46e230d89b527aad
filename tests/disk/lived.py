"""What a life told, and how it ended."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Lived:
    """Exit code (less than 0 for a signal), values that it found and that it took, its stderr."""

    code: int
    had: frozenset[str]
    took: frozenset[str]
    words: str

    @classmethod
    def told(cls, code: int, stdout: str, stderr: str) -> "Lived":
        """Read the lines `have VALUE` and `took VALUE`."""
        lines = [line.split(" ", 1) for line in stdout.splitlines()]
        had, took = (
            frozenset(line[1] for line in lines if len(line) > 1 and line[0] == word)
            for word in ("have", "took")
        )
        return cls(code, had, took, stderr)
