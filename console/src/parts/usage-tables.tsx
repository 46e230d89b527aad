import { memo, useMemo } from "react";

import type { Schemas } from "../api.js";
import { grouped } from "../rules/figures.js";
import { before, windowStarts } from "../rules/range.js";
import { groupLabel, SERIES_MAX, seriesOf } from "../rules/series.js";
import { written } from "../rules/times.js";
import type { Seen } from "../seen.js";
import { setParams } from "../state.js";
import { adds, GROUPS_MAX } from "../usage.js";
import { Empty, Link, Name, Table } from "./basics.js";
import { Chart } from "./chart.js";
import { asText, questionOf, Why } from "./why-link.js";

type Meter = Schemas["Meter"];
const ROWS_SHOWN = 200;

/** The windows of a meter's usage, as a chart and as a table of the same numbers. They are drawn anew
 * where they change, not where something else in the URL does, such as the number that is asked for.
 */
export const Windows = memo(function Windows({
  meter,
  seen,
  found,
  limited,
  past,
}: {
  meter: Meter;
  seen: Seen;
  found: Schemas["QueryResult"];
  limited: boolean;
  past: Schemas["UsageRow"][] | undefined;
}) {
  const starts = useMemo(() => windowStarts(seen.range, seen.granularity, seen.zone), [seen]);
  const series = useMemo(() => seriesOf(found.data, starts, adds(meter)), [found, starts, meter]);
  const pastSeries = useMemo(() => {
    if (past === undefined) return undefined;
    const earlier = before(seen.range, seen.granularity, seen.zone);
    const at = windowStarts(earlier, seen.granularity, seen.zone);
    const one = seriesOf(past, at, adds(meter))[0];
    return {
      values: starts.map((_, index) => one?.values[index] ?? null),
      texts: starts.map((_, index) => one?.texts[index] ?? null),
    };
  }, [past, starts, seen, meter]);
  if (found.data.length === 0) {
    return (
      <Empty title="Nothing counted in this range">
        <p>
          Choose another range, or look whether{" "}
          <Link href={`/events?type=${encodeURIComponent(meter.event_type)}`}>
            events of its type arrive
          </Link>
          .
        </p>
      </Empty>
    );
  }
  const pick = (index: number) => {
    const row = found.data.find((one) => Date.parse(one.from) === starts[index]);
    if (row)
      setParams({
        why: asText(
          questionOf(
            meter.key,
            seen.groups.length === 0 ? row : { ...row, dimensions: {}, value: "" },
            seen.subject || undefined,
            seen.only,
          ),
        ),
        why_after: "",
      });
  };
  const shown = [...found.data].reverse().slice(0, ROWS_SHOWN);
  const exactness = seen.granularity === "P1D" || seen.granularity === "P1M" ? "day" : "minute";
  return (
    <>
      <Chart
        starts={starts}
        series={series}
        before={pastSeries}
        exactness={exactness}
        zone={seen.zone}
        pick={pick}
        label={`Usage of ${meter.name} over time; the table below has the same numbers`}
      />
      {new Set(found.data.map((row) => groupLabel(row.dimensions))).size > SERIES_MAX && (
        <p className="muted">The chart shows the {SERIES_MAX} groups with most usage.</p>
      )}
      {limited && (
        <p className="muted">
          There are more groups: these are the {GROUPS_MAX} with most usage. The CSV has all.
        </p>
      )}
      {found.complete_until && Date.parse(found.complete_until) < Date.parse(seen.range.to) && (
        <p className="muted">
          Complete until {written(found.complete_until, seen.zone)}: later events may still be on
          their way.
        </p>
      )}
      {found.complete_from && (
        <p className="muted">
          Before {written(found.complete_from, seen.zone)} it may lack events: they were not kept
          any more when the meter was made.
        </p>
      )}
      <Table
        label="Usage by window"
        bounded
        rows={shown}
        id={(row) => row.from + groupLabel(row.dimensions)}
        columns={[
          {
            head: "Window from",
            cell: (row) => (
              <span className="nowrap">{written(row.from, seen.zone, exactness)}</span>
            ),
          },
          ...seen.groups.map((name) => ({
            head: name,
            cell: (row: Schemas["UsageRow"]) => <Name>{row.dimensions[name] || "(empty)"}</Name>,
          })),
          {
            head: "Usage",
            number: true,
            cell: (row) => (
              <Why question={questionOf(meter.key, row, seen.subject || undefined, seen.only)}>
                {grouped(row.value)}
              </Why>
            ),
          },
          { head: "Events", number: true, cell: (row) => grouped(String(row.counted)) },
          {
            head: "Rejected",
            number: true,
            cell: (row) =>
              row.rejected === 0 ? <span className="muted">0</span> : grouped(String(row.rejected)),
          },
        ]}
      />
      {found.data.length > shown.length && (
        <p className="muted">
          The newest {ROWS_SHOWN} of {grouped(String(found.data.length))} rows. The CSV has all.
        </p>
      )}
    </>
  );
});

/** The subjects with most usage in the range. */
export const Top = memo(function Top({
  meter,
  seen,
  rows,
}: {
  meter: Meter;
  seen: Seen;
  rows: readonly Schemas["UsageRow"][];
}) {
  if (rows.length === 0) return <Empty title="No subject has usage in this range" />;
  return (
    <Table
      label="Top subjects"
      rows={rows}
      id={(row) => row.dimensions["subject"] ?? ""}
      columns={[
        {
          head: "Subject",
          cell: (row) => (
            <button
              type="button"
              className="why"
              onClick={() => setParams({ subject: row.dimensions["subject"] ?? "" })}
            >
              <Name>{row.dimensions["subject"] ?? ""}</Name>
            </button>
          ),
        },
        {
          head: "Usage",
          number: true,
          cell: (row) => (
            <Why question={questionOf(meter.key, { ...row, ...seen.range }, undefined, seen.only)}>
              {grouped(row.value)}
            </Why>
          ),
        },
        { head: "Events", number: true, cell: (row) => grouped(String(row.counted)) },
      ]}
    />
  );
});
