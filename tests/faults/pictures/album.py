"""Pictures of the dashboard over a run, as files: one for each of its rows."""

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from playwright.sync_api import sync_playwright

from tests import chromium
from tests.faults.pictures.drawing import Times, size, svg
from tests.faults.pictures.panels import Section, lines, sections
from tests.faults.pictures.recording import Recording, Span, read, write
from tests.unit.observe.promql import Recorded
from tests.unit.observe.rules import FOLDER

STEP_S: Final = 15.0
SERIES: Final = "series.jsonl"


@contextmanager
def pictured(folder: Path | None) -> Iterator[Recording | None]:
    """What the block records is in the folder afterwards, as series and as pictures, also where it
    fails. Without a folder nothing is recorded.
    """
    if folder is None:
        yield None
        return
    folder.mkdir(parents=True, exist_ok=True)
    recording = Recording()
    try:
        yield recording
    finally:
        write(folder / SERIES, recording.recorded(), recording.spans)
        draw(folder)


def draw(folder: Path) -> list[Path]:
    """The pictures of the series in a folder, made beside them; none where nothing was recorded."""
    recorded, spans = read(folder / SERIES)
    times = spanned(recorded, spans)
    if times is None:
        return []
    shown = sections(json.loads((FOLDER / "dashboard.json").read_text()))
    texts = [drawn(section, recorded, times) for section in shown]
    return _as_png(folder, shown, texts)


def spanned(recorded: Recorded, spans: Sequence[Span]) -> Times | None:
    """From the first sample to the last one; None: less than a step is known."""
    ends = [at for of in recorded.series.values() if of for at in (of[0][0], of[-1][0])]
    if not ends or max(ends) - min(ends) < STEP_S:
        return None
    return Times(min(ends), max(ends), STEP_S, spans)


def drawn(section: Section, recorded: Recorded, times: Times) -> str:
    """The picture of a section as an SVG."""
    steps = int((times.last_s - times.first_s) / times.step_s)
    moments = [times.first_s + times.step_s * at for at in range(1, steps + 1)]
    shown = {one.title: lines(one, recorded, moments) for one in section.panels}
    return svg(section, shown, times)


def _as_png(folder: Path, shown: Sequence[Section], texts: Sequence[str]) -> list[Path]:
    places = [
        folder / f"{number}-{re.sub('[^a-z]+', '-', section.title.lower()).strip('-')}.png"
        for number, section in enumerate(shown, 1)
    ]
    with sync_playwright() as playwright:
        path, arguments = chromium.installed(), list(chromium.ARGUMENTS)
        browser = playwright.chromium.launch(executable_path=path, args=arguments)
        for place, section, text in zip(places, shown, texts, strict=True):
            wide, high = size(section)
            page = browser.new_page(viewport={"width": wide, "height": high})
            page.set_content(f'<body style="margin:0">{text}</body>')
            page.screenshot(path=place)
            page.close()
        browser.close()
    return places
