"""`meterline erase`: ask a server to erase a subject, and wait until it is settled."""

import asyncio
from typing import Final

import aiohttp
import click
import msgspec

from meterline.runtime.commands.asking import (
    SERVER,
    V3,
    AskingFailed,
    api_key_option,
    ask,
    authorization,
    fail,
)

EXIT_NOT_ERASED: Final = 3
TIMEOUT_S: Final = 30
LOOK_S: Final = 1
_OVER: Final = ("settled", "done")


class Erasure(msgspec.Struct):
    """An erasure, as the server shows it."""

    id: str
    state: str
    pseudonym: str
    log_holds_until: str | None = None

    @property
    def line(self) -> str:
        """It in a line."""
        until = f"; the log holds it until {self.log_holds_until}" if self.log_holds_until else ""
        return f"{self.id}: {self.state}, usage under {self.pseudonym}{until}"


_erasures: Final = msgspec.json.Decoder(Erasure)


@click.command(short_help="Erase a subject: its name and payloads go, its usage stays.")
@click.argument("subject")
@click.option("--server", default=SERVER, show_default=True, help="URL of the server.")
@api_key_option("subjects:erase")
@click.option("--wait/--no-wait", default=True, help="Wait until only the log still has it.")
@click.option("--yes", is_flag=True, help="Do not ask whether you are sure.")
def erase(subject: str, server: str, api_key: str | None, *, wait: bool, yes: bool) -> None:
    """Erase SUBJECT: remove its name and payloads from all that was recorded before.

    Its usage is kept under a pseudonym, so totals do not change. This cannot be undone. It takes up
    to ten minutes. The log still holds its records for `log_retention_days`.
    """
    if not yes:
        click.confirm(f"Erase {subject!r} for good?", abort=True)
    try:
        asyncio.run(_erased(server.rstrip("/") + V3, subject, api_key, wait=wait))
    except AskingFailed as error:
        fail("erase", error, EXIT_NOT_ERASED)


async def _erased(base: str, subject: str, api_key: str | None, *, wait: bool) -> None:
    async with aiohttp.ClientSession(headers=authorization(api_key)) as session:
        answer = await ask(
            session, "POST", f"{base}/erasures", TIMEOUT_S, json={"subject": subject}
        )
        erasure = _erasures.decode(answer)
        click.echo(erasure.line)
        while wait and erasure.state not in _OVER:
            await asyncio.sleep(LOOK_S)
            answer = await ask(session, "GET", f"{base}/erasures/{erasure.id}", TIMEOUT_S)
            now = _erasures.decode(answer)
            if now.state != erasure.state:
                click.echo(now.line)
            erasure = now
