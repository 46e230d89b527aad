"""The ways: a disk is wiped and restored, an installation moves to servers and back."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.journey.journey import SLUG
from tests.journey.questions import JANUARY
from tests.journey.setups import Servers
from tests.recovery.disks import SECRET_KEY, key_of, put_key, wipe_folder, wipe_servers
from tests.recovery.ground import Ground
from tests.recovery.installation import V3, Billed, Installation, last_month
from tests.recovery.load import under_load
from tests.recovery.steps import Steps

Way = Callable[[Ground, Servers, Steps], None]
CLEAN: Final = "exact, audit clean"
SOME: Final = 20_000  # flights that are sent again where not all are


def restored_embedded(ground: Ground, _servers: Servers, steps: Steps) -> None:
    """One process: a backup under load, its disk is wiped, and it is restored."""
    one = ground.embedded()
    archive = ground.archive
    late = _until_wiped(one, ground, archive, steps)
    with steps.step("wipe the folder of data"):
        key = wipe_folder(one)
        put_key(one.data, key)
    _restored(one, ground, archive, late, steps)


def restored_on_servers(ground: Ground, servers: Servers, steps: Steps) -> None:
    """Roles on servers: the same, with the topic and both databases wiped."""
    one = ground.distributed(servers)
    archive = ground.archive
    late = _until_wiped(one, ground, archive, steps)
    with steps.step("wipe topic, databases, folders"):
        key = wipe_servers(one, servers)
    anew = ground.distributed(servers, {SECRET_KEY: key}, migrated=False)
    anew.billed = one.billed
    _restored(anew, ground, archive, late, steps)


def _until_wiped(one: Installation, ground: Ground, archive: Path, steps: Steps) -> Billed:
    """Half of the flights, a backup while the others come, and a run that the backup lacks."""
    with steps.step("start, send the first half") as step:
        one.start()
        one.define()
        one.send(ground.file(end=ground.half))
        step.events, step.result = ground.half, "counted"
    with steps.step("report of January") as step:
        billed = one.bill(JANUARY, ground.half)
        step.events, step.result = len(billed.deliveries), "delivered as the oracle has it"
    with steps.step("backup while the others come") as step:
        loaded = under_load(
            one.setup, ground.lines(ground.half), lambda: one.run("backup", str(archive))
        )
        assert loaded.meanwhile > 0, "events came in while the backup was made"
        assert _is_sealed(archive), "some slices were sealed by then"
        step.events, step.result = loaded.flights, f"{loaded.meanwhile:,} sent meanwhile"
    with steps.step("answers and audit before") as step:
        step.events, step.result = one.exact(ground.flights)["new"], CLEAN
    with steps.step("report of the last month") as step:
        late = one.bill(last_month(ground.flights), ground.flights)
        step.events, step.result = len(late.deliveries), "delivered, not in the backup"
    return late


def _restored(one: Installation, ground: Ground, archive: Path, late: Billed, steps: Steps) -> None:
    """What comes after a wiped disk: the way of docs/backup.md."""
    delivered = len(one.box.delivered)
    with steps.step("restore"):
        assert one.run("restore", str(archive), "--pause-reports") == "", "no difference"
    with steps.step("start, count what the archive has") as step:
        one.start()
        found = one.account(ground.half)
        assert found["new"] < ground.flights, "some came after the backup"
        step.events, step.result = found["new"], "of the archive"
    with steps.step("send all flights again") as step:
        one.send(ground.file())
        account = one.account(ground.flights)
        again = account["duplicate"] - found["duplicate"]
        assert again >= found["new"], "what the archive has is known"
        step.events, step.result = ground.flights, f"{again:,} were duplicates"
    with steps.step("answers and audit after") as step:
        step.events, step.result = one.exact(ground.flights)["new"], CLEAN
    with steps.step("reports after") as step:
        resumed = one.api.ask("POST", f"{V3}/reports/{SLUG}/resume")
        assert resumed.status == 200, resumed.body
        one.still_billed(JANUARY)
        assert len(one.box.delivered) == delivered, "what was delivered is not sent again"
        again_late = one.bill(last_month(ground.flights), ground.flights)
        assert again_late.ids == late.ids, "a receiver knows them"
        assert again_late.usage == late.usage
        step.events, step.result = len(late.deliveries), "same ids, same figures"


def _is_sealed(archive: Path) -> bool:
    """Whether the usage that the archive has is that of sealed slices; the rest is in its log."""
    manifest = json.loads((archive / "manifest.json").read_bytes())
    return any(one["counted"] > 0 for one in manifest["log"]["partitions"])


def moved(ground: Ground, servers: Servers, steps: Steps) -> None:
    """From one process to servers, and back."""
    first = ground.embedded()
    with steps.step("embedded: send the first half") as step:
        first.start()
        first.define()
        first.send(ground.file(end=ground.half))
        first.bill(JANUARY, ground.half)
        step.events, step.result = first.exact(ground.half)["new"], CLEAN
    with steps.step("stop, export, import on servers"):
        on_servers = _moved(
            first,
            ground,
            lambda key: ground.distributed(servers, {SECRET_KEY: key}, migrated=False),
        )
    with steps.step("on servers: some again, and the others") as step:
        on_servers.start()
        duplicates = on_servers.account(ground.half)["duplicate"]
        on_servers.send(ground.file(end=SOME))
        on_servers.send(ground.file(ground.half))
        account = on_servers.exact(ground.flights)
        assert account["duplicate"] >= duplicates + SOME, "it knows what was counted"
        on_servers.still_billed(JANUARY)
        on_servers.bill(last_month(ground.flights), ground.flights)
        step.events, step.result = account["new"], CLEAN
    with steps.step("stop, export, import in one process"):
        last = _moved(on_servers, ground, lambda key: _with_key(ground.embedded(), key))
    with steps.step("embedded again: all again") as step:
        last.start()
        last.send(ground.file())
        back = last.exact(ground.flights)
        assert back["duplicate"] >= account["duplicate"] + ground.flights, "all were counted"
        last.still_billed(JANUARY)
        last.still_billed(last_month(ground.flights))
        step.events, step.result = back["new"], CLEAN


def _moved(
    before: Installation, ground: Ground, make: Callable[[str], Installation]
) -> Installation:
    """Stop an installation, and import what it exports into another one."""
    before.stop()
    archive = ground.archive
    before.run("export", str(archive))
    after = make(key_of(before))
    after.billed = before.billed
    assert after.run("import", str(archive)) == "", "no difference"
    return after


def _with_key(one: Installation, key: str) -> Installation:
    """The same, with the key in its folder."""
    put_key(one.data, key)
    return one
