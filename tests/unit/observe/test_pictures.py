"""Pictures of the dashboard show what its panels ask for."""

import math
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.faults.pictures.album import spanned
from tests.faults.pictures.drawing import NAMED, Times, colour_of, svg, unbroken
from tests.faults.pictures.excerpt import excerpt
from tests.faults.pictures.panels import Line, Panel, lines, named, sections
from tests.faults.pictures.recording import SAMPLES_MAX, Recording, read, write
from tests.faults.pictures.units import ticks, written
from tests.unit.observe.promql import STALE, Recorded, labels_of
from tests.unit.observe.test_names import DASHBOARD, PANELS

TIMES = Times(0.0, 300.0, 15.0, [("a <fault>", 60.0, 120.0)])
SECTIONS = sections(DASHBOARD)
BY_TITLE = {panel.title: panel for section in SECTIONS for panel in section.panels}


def texts(picture: str) -> list[str]:
    root = ET.fromstring(picture)  # noqa: S314 - it is our own
    return ["".join(it.itertext()) for it in root.findall(".//{*}text")]


def test_every_panel_is_in_a_section() -> None:
    assert [panel.title for section in SECTIONS for panel in section.panels] == [
        it["title"] for it in PANELS
    ]
    assert all(panel.place.y >= 0 for section in SECTIONS for panel in section.panels)


@pytest.mark.parametrize("panel", BY_TITLE.values(), ids=lambda it: it.title)
def test_units_of_panels_are_known(panel: Panel) -> None:
    for unit in {panel.unit, *panel.units.values()}:
        assert written(2.0, unit)


@pytest.mark.parametrize(
    ("value", "unit", "words"),
    [
        (0, "s", "0 s"),
        (0.0025, "s", "2.5 ms"),
        (0.00002, "s", "20 µs"),
        (42, "s", "42 s"),
        (90, "s", "1.5 min"),
        (0.005, "percentunit", "0.5%"),
        (1, "percentunit", "100%"),
        (64 * 1024 * 1024, "bytes", "64 MiB"),
        (100, "bytes", "100 B"),
        (1_500, "short", "1.5 K"),
        (2_500_000, "none", "2.5 Mil"),
        (0.3, "short", "0.3"),
        (12.34, "eps", "12.3 evt/s"),
        (1_000, "rowsps", "1 K rows/s"),
    ],
)
def test_values_are_written_as_grafana_does(value: float, unit: str, words: str) -> None:
    assert written(value, unit) == words


def test_an_axis_has_round_values_beyond_the_greatest() -> None:
    assert ticks(0, "short") == [0, 1]
    assert ticks(7, "short") == [0, 2, 4, 6, 8]
    assert [it / 1024**2 for it in ticks(90 * 1024**2, "bytes")] == [0, 50, 100]


def test_a_value_has_the_colour_of_its_threshold() -> None:
    colours = [colour_of(BY_TITLE["Freshness"], value) for value in (0, 29.9, 30, 59.9, 60)]
    assert colours == [NAMED[it] for it in ("green", "green", "orange", "orange", "red")]


def test_a_line_is_named_after_its_labels() -> None:
    labels = labels_of('a{instance="gateway-1",table="seen"}')
    assert named("{{instance}} {{worker}}", labels) == "gateway-1"
    assert named("rows of {{ table }}", labels) == "rows of seen"


def test_a_line_breaks_where_it_has_no_value() -> None:
    points = [(15.0, 1.0), (30.0, 2.0), (60.0, 3.0)]
    assert unbroken(points, 15.0) == [points[:2], points[2:]]


def test_a_picture_has_all_panels_and_faults() -> None:
    for section in SECTIONS:
        shown = {it.title: [Line("one <line>", it.unit, [(15.0, 1.0)])] for it in section.panels}
        found = texts(svg(section, shown, TIMES))
        assert {section.title, *shown} <= set(found)
        assert "Red: a <fault> (1:00 to 2:00)" in found
        graphs = [it for it in section.panels if it.kind == "timeseries"]
        assert found.count("one <line>") == len(graphs)
        empty = texts(svg(section, dict.fromkeys(shown, ()), TIMES))
        assert empty.count("No data") == len(section.panels)


def test_a_legend_that_is_too_long_says_how_much_is_missing() -> None:
    (section,) = (it for it in SECTIONS if it.title == "Gateway")
    many = [Line(f"operation {number}", "s", [(15.0, 1.0)]) for number in range(90)]
    shown = {it.title: many for it in section.panels}
    found = texts(svg(section, shown, TIMES))
    told = found.count("operation 0")
    assert told == len(section.panels)
    missing = {it for it in found if it.startswith("and ")}
    assert missing
    assert "operation 89" not in found


def test_what_is_no_number_is_no_point() -> None:
    panel = BY_TITLE["Pending"]
    series = labels_of('meterline_ingest_pending_bytes{job="meterline",instance="gateway-1"}')
    recorded = Recorded({series: [(0.0, 5.0), (15.0, math.nan), (30.0, 7.0), (45.0, STALE)]})
    (line,) = lines(panel, recorded, [0.0, 15.0, 30.0, 45.0])
    assert line == Line("gateway-1", "bytes", [(0.0, 5.0), (30.0, 7.0)])


def test_a_recording_keeps_what_is_ours_and_when_it_ended(tmp_path: Path) -> None:
    recording = Recording([("a fault", 5.0, 15.0)])
    shown = {"__name__": "meterline_ready"}
    held = {"__name__": "meterline_log_lag_records", "partition": "1"}
    recording.scraped("a", 0.0, [(shown, 1.0), (held, 2.0), ({"__name__": "python_info"}, 1.0)])
    recording.scraped("a", 5.0, [(shown, 1.0)])
    recording.scraped("a", 10.0, [({"__name__": "up"}, 0.0)])
    of_a = 'job="meterline",instance="a"'
    expected = {
        labels_of(f"meterline_ready{{{of_a}}}"): [(0.0, 1.0), (5.0, 1.0), (10.0, STALE)],
        labels_of(f'meterline_log_lag_records{{{of_a},partition="1"}}'): [(0.0, 2.0), (5.0, STALE)],
        labels_of(f"up{{{of_a}}}"): [(10.0, 0.0)],
    }
    assert recording.recorded().series == expected
    write(tmp_path / "series", recording.recorded(), recording.spans)
    recorded, spans = read(tmp_path / "series")
    assert recorded.series == expected
    assert spans == recording.spans


def test_a_recording_is_bounded() -> None:
    recording = Recording()
    for at in range(SAMPLES_MAX + 5):
        recording.scraped("a", float(at), [({"__name__": "up"}, 1.0)])
    (samples,) = recording.recorded().series.values()
    assert samples[0] == (5.0, 1.0)
    assert len(samples) == SAMPLES_MAX


def test_pictures_are_of_the_whole_run() -> None:
    recorded = Recorded({labels_of("a"): [(7.0, 1.0), (20.0, 1.0)], labels_of("b"): [(30.0, 1.0)]})
    times = spanned(recorded, [])
    assert times is not None
    assert (times.first_s, times.last_s) == (7.0, 30.0)
    assert spanned(Recorded({}), []) is None
    assert spanned(Recorded({labels_of("a"): [(7.0, 1.0)]}), []) is None


def test_an_excerpt_is_of_the_time_before_the_first_fault() -> None:
    of_gateway = labels_of('meterline_ready{instance="gateway-1"}')
    samples = [(float(at), float(at)) for at in range(0, 201, 5)]
    others = ('meterline_ready{instance="gateway-2"}', 'meterline_no{instance="gateway-1"}')
    series = {of_gateway: samples, **{labels_of(it): samples for it in others}}
    found = excerpt(Recorded(series), [("second", 150.0, 160.0), ("first", 100.0, 110.0)])
    assert found.series == {
        of_gateway: [(0.0, 25.0), (15.0, 40.0), (30.0, 55.0), (45.0, 70.0), (60.0, 85.0)]
    }
