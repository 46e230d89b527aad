"""`python -m tests.upgrade.back NAME [--build FOLDER]`: the build that made a recording, on stores
that this build has migrated.

Once in one process, which goes on, goes back, and both once more. Once on servers, where both
builds run beside each other. The code of the build is kept with the recording; FOLDER is a checkout
of another one. A share of it is in tests/journey/test_back.py.
"""

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tests.journey.deadline import until
from tests.journey.processes import run_command
from tests.journey.receiver import Receiver, receiving
from tests.journey.setups import Servers
from tests.scratch import memory_folder
from tests.upgrade import servers as places
from tests.upgrade.answers import differences
from tests.upgrade.build import unpack_build
from tests.upgrade.life import NEXT_DAY, SETTINGS, WITHIN_S, counted, event, send
from tests.upgrade.recording import names, unpack
from tests.upgrade.servers import three
from tests.upgrade.upgraded import ROOT, Upgraded, upgraded

SOME = 100
TURNS = (False, True, False, True)
"""Whether the build before runs, or this one."""


def lasting(up: Upgraded) -> list[str]:
    """What it says otherwise than it did."""
    return differences(up.server, (one for one in up.story.answers if one.lasts))


def news(name: str) -> list[dict[str, Any]]:
    """New events."""
    return [event(number, NEXT_DAY, name) for number in range(SOME)]


def go_back(
    name: str, build: Path, folder: Path, receiver: Receiver, turns: Sequence[bool] = TURNS
) -> None:
    """In one process, one build after the other."""
    story = unpack(name, "embedded", folder)
    account, ahead_ms = Counter(story.account), None
    for turn, before in enumerate(turns):
        runs = build if before else ROOT
        with upgraded(story, folder, receiver, {}, runs, ahead_ms) as up:
            ahead_ms = up.ahead_ms
            assert counted(up.server, account) == account
            check(lasting(up))
            send(up.server, [*news(f"turn-{turn}-"), *story.events[:SOME]])
            account.update(received=2 * SOME, new=SOME, duplicate=SOME)
            assert counted(up.server, account) == account
            check(up.audit().splitlines())
            up.process.kill()
        say(f"one process, {'the build before' if before else 'this build'}: as it should be")


def run_beside(name: str, build: Path, folder: Path, receiver: Receiver, servers: Servers) -> None:
    """On servers, both at the same time, then one of each."""
    story = unpack(name, "servers", folder)
    place = places.fresh(servers)
    places.put_in(place, folder)
    settings = {**place.settings, "METERLINE_SECRET_KEY": story.secret_key}
    own = {**settings, "METERLINE_DATA_DIR": str(folder / "data-before")}
    account = Counter(story.account)
    with upgraded(story, folder, receiver, own, build) as before:
        run_command(["migrate"], folder, {**SETTINGS, **settings})
        check(lasting(before))
        say("servers, the build before, on the new schema: it answers as it did")
        with upgraded(story, folder, receiver, settings, ROOT, before.ahead_ms) as after:
            for turn, one in enumerate((before, after, before)):
                send(one.server, [*news(f"turn-{turn}-"), *story.events[:SOME]])
            account.update(received=6 * SOME, new=3 * SOME, duplicate=3 * SOME)
            for one in (before, after):
                assert counted(one.server, account) == account
                check(lasting(one))
            due = Counter(story.due)
            until("due", WITHIN_S, lambda: sum(map(taken, (before, after))) >= due.total())
            assert Counter(before.taken) + Counter(after.taken) == due
            say("servers, both builds beside each other: as it should be")
            before.process.kill()
            send(after.server, news("after-"))
            account.update(received=SOME, new=SOME)
            assert counted(after.server, account) == account
            check(after.audit().splitlines())
            say("servers, this build alone: as it should be")


def taken(up: Upgraded) -> int:
    """How much its receivers took."""
    return len(up.taken)


def check(found: Iterable[str]) -> None:
    """Fail with all lines."""
    lines = list(found)
    assert not lines, "\n".join(lines)


def say(words: str) -> None:
    """For who waits."""
    sys.stderr.write(f"{words}\n")


def main() -> None:
    """Both."""
    parser = argparse.ArgumentParser(prog="python -m tests.upgrade.back", description=__doc__)
    parser.add_argument("name", choices=names())
    parser.add_argument("--build", type=Path, help="a checkout; the code that is kept, if left out")
    given = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(dir=memory_folder(), prefix="back-") as place,
        receiving() as receiver,
    ):
        kept = given.build or unpack_build(given.name, Path(place) / "build")
        build = kept.resolve()
        go_back(given.name, build, Path(place) / "embedded", receiver)
        with three() as servers:
            run_beside(given.name, build, Path(place) / "servers", receiver, servers)


if __name__ == "__main__":
    main()
