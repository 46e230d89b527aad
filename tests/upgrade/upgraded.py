"""A recorded installation that this build goes on with."""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from meterline.window import HOUR_MS
from tests.journey.client import Server
from tests.journey.deadline import until
from tests.journey.processes import role_process, run_command
from tests.journey.receiver import Receiver
from tests.journey.scheduled import MovedMailbox
from tests.services.local import LocalService, free_port
from tests.upgrade.answers import differences, lost, stripped
from tests.upgrade.life import (
    HOST,
    NEXT_DAY,
    REPORTS,
    SETTINGS,
    SUBJECTS,
    V3,
    WITHIN_S,
    counted,
    deliveries,
    event,
    send,
)
from tests.upgrade.process import LaterClock
from tests.upgrade.recording import DATA, Story

ROOT: Final = Path(__file__).resolve().parents[2]
LATER_MS: Final = 2 * HOUR_MS  # than the end of the recording: everything that is retried is due
EACH: Final = 4  # of so many recorded events one is sent again
NEW: Final = 200
WINDOW: Final = {"from": f"{NEXT_DAY}T00:00:00Z", "to": "2026-02-03T00:00:00Z"}
# What an attempt changes of a delivery.
ATTEMPTED: Final = ("state", "attempt_count", "next_attempt_at", "ended_at")


@dataclass(slots=True)
class Upgraded:
    """The installation, and what its receivers take."""

    story: Story
    folder: Path
    settings: Mapping[str, str]
    process: LocalService
    server: Server
    boxes: Mapping[str, MovedMailbox]
    ahead_ms: int  # its clock, of that of the machine

    @property
    def taken(self) -> list[str]:
        """The ids of all that was delivered to this build's receivers."""
        return [one.id for box in self.boxes.values() for one in box.delivered]

    def answers_as_before(self) -> list[str]:
        """What it says otherwise than it did, before anything is sent to it."""
        account = counted(self.server, {})
        lines = [f"the account: {line}" for line in lost(dict(self.story.account), account)]
        return lines + differences(self.server, self.story.answers)

    def deliver_what_is_due(self) -> None:
        """Everything that was due comes, under its id, and nothing else."""
        due = Counter(self.story.due)
        assert len(due) == SUBJECTS, "the recording has some"
        until("what was due is delivered", WITHIN_S, lambda: len(self.taken) >= len(due))
        assert Counter(self.taken) == due
        until("it is known", WITHIN_S, lambda: all(self._ended(one) for one in due))
        before = {one["id"]: stripped(one, ATTEMPTED) for one in self.story.deliveries}
        now = {one["id"]: one for one in deliveries(self.server)}
        assert now.keys() == before.keys()
        assert list(lost(before, now)) == []
        assert {one["state"] for one in now.values()} == {"delivered"}

    def _ended(self, delivery: str) -> bool:
        return "ended_at" in self.server.get(f"{V3}/deliveries/{delivery}").json

    def send_again_and_more(self) -> None:
        """What was counted is a duplicate; new events count, and are reported under new ids."""
        again = self.story.events[::EACH]
        send(self.server, again)
        send(self.server, [event(number, NEXT_DAY, "new-") for number in range(NEW)])
        account = Counter(self.story.account)
        account.update(received=len(again) + NEW, duplicate=len(again), new=NEW)
        assert counted(self.server, account) == account
        lasting = [one for one in self.story.answers if one.lasts]
        assert differences(self.server, lasting) == []
        before = Counter(self.taken)
        self.server.made(f"{V3}/reports/daily/runs", WINDOW)
        all_there = before.total() + SUBJECTS
        until("a new run is delivered", WITHIN_S, lambda: len(self.taken) >= all_there)
        new = Counter(self.taken) - before
        assert len(new) == SUBJECTS
        assert new.keys().isdisjoint({one["id"] for one in self.story.deliveries})

    def ask_for_a_run_again(self) -> None:
        """A window that was run is known: there is no second run of it."""
        asked = next(one for one in self.story.answers if "reports/daily/runs" in one.path)
        run = asked.answer["data"][-1]
        window = {name: run[name] for name in ("from", "to")}
        again = self.server.ask("POST", f"{V3}/reports/daily/runs", window)
        assert (again.status, again.json["id"]) == (200, run["id"])

    def audit(self) -> str:
        """A line for each difference. Raises `ServiceError` with them if there are some."""
        return run_command(["audit", "--server", self.server.url], self.folder, self.settings)


@contextmanager
def upgraded(
    story: Story,
    folder: Path,
    receiver: Receiver,
    more: Mapping[str, str],
    build: Path = ROOT,
    ahead_ms: int | None = None,
) -> Iterator[Upgraded]:
    """A process goes on with what was unpacked into a folder, at the time at which it was recorded.
    `more` settings say where its stores are; `build` is the checkout that it runs. Its clock is
    that of another process, if `ahead_ms` of that is given.
    """
    port = free_port()
    of_clock = folder / f"clock-{port}"
    of_clock.mkdir()
    clock = LaterClock(of_clock)
    if ahead_ms is None:
        ahead_ms = story.end_ms + LATER_MS - clock.now_ms()
    clock.move(ahead_ms)
    boxes = {
        slug: MovedMailbox(f"{HOST}/{slug}", story.signing[slug], clock=clock) for slug in REPORTS
    }
    for box in boxes.values():
        receiver.boxes[box.url] = box
    settings = {
        **SETTINGS,
        "PYTHONPATH": str(build),
        "METERLINE_DATA_DIR": str(folder / DATA),
        "METERLINE_WEBHOOK_PROXY": receiver.url,
        **more,
    }
    process = role_process("up", ["up"], folder / f"up-{port}", port, settings, clock.program)
    try:
        process.start()
        yield Upgraded(story, folder, settings, process, Server(process.url), boxes, ahead_ms)
    except BaseException as error:
        error.add_note(process.log_path.read_text(errors="replace")[-4000:])
        raise
    finally:
        process.kill()
