"""Start all three servers and print the settings that use them, or only fetch what they need.

python -m tests.services          start, print, wait for Ctrl-C
python -m tests.services fetch    download ahead of the tests what local processes will need
"""

import signal
import sys
import threading
from contextlib import ExitStack

from tests.services.choose import CHOICES, fetch_ahead, open_service, setting_line
from tests.services.service import ServiceError


def say(words: str) -> None:
    """Progress goes to stderr, so that stdout holds settings only."""
    sys.stderr.write(f"services: {words}\n")
    sys.stderr.flush()


def serve() -> None:
    """Settings lines on stdout; everything is stopped and dropped at the end."""
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda _number, _frame: ended.set())
    with ExitStack() as stack:
        for kind, choice in CHOICES.items():
            service = open_service(kind, say)
            stack.callback(service.stop)
            service.start()
            sys.stdout.write(f"{setting_line(kind, service.url)}\n")
            sys.stdout.flush()
            say(f"for the tests: {choice.variable}={service.url}")
        say("all serve; Ctrl-C stops them and drops their data")
        ended.wait()


def main(arguments: list[str]) -> None:
    """Do what the arguments ask for; a server that cannot be had ends it with words."""
    try:
        if arguments == ["fetch"]:
            fetch_ahead(say)
        elif not arguments:
            serve()
        else:
            sys.exit(__doc__)
    except ServiceError as error:
        sys.exit(f"services: {error}")


if __name__ == "__main__":
    main(sys.argv[1:])
