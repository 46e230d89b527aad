import { useMutation } from "@tanstack/react-query";
import { useParams } from "wouter";

import { api, unwrap, type Schemas } from "../api.js";
import { InSettings, MeterActions, Revisions } from "../meter/manage.js";
import { useMeter } from "../meter/meter.js";
import {
  Answer,
  Card,
  Facts,
  Failure,
  Figure,
  Link,
  Name,
  Page,
  State,
  Table,
  Time,
} from "../parts/basics.js";
import { Programs, saveCsv } from "../parts/programs.js";
import { Controls } from "../parts/usage-controls.js";
import { Top, Windows } from "../parts/usage-tables.js";
import { questionOf, Why } from "../parts/why-link.js";
import { change, grouped } from "../rules/figures.js";
import { aligned, before } from "../rules/range.js";
import { useSeen, WORDS } from "../seen.js";
import { setParams, SLOW_MS, useApi, useMay, useParam } from "../state.js";
import { latest, usage, usageOfTop } from "../usage.js";
import { Measures } from "./meters.js";

type Meter = Schemas["Meter"];

export default function MeterPage() {
  const { key = "" } = useParams<{ key: string }>();
  const meter = useMeter(key);
  return (
    <Answer of={meter} page={key} all={<Link href="/meters">All meters</Link>}>
      {(found) => <One meter={found} />}
    </Answer>
  );
}

function One({ meter }: { meter: Meter }) {
  const may = useMay();
  // Asked again as its usage is: else a page that stays open would show the same windows for ever.
  const end = useApi(
    ["latest", meter.event_type, may("events:read")],
    async () => (may("events:read") ? latest(meter.event_type) : new Date().toISOString()),
    SLOW_MS,
  );
  return (
    <Page
      title={<Name>{meter.name}</Name>}
      aside={
        <>
          <Link href="/meters">All meters</Link>
          <MeterActions meter={meter} />
        </>
      }
    >
      <p className="muted">
        <Measures meter={meter} /> · key <code>{meter.key}</code> · revision {meter.revision}
        {meter.pending_revision && (
          <>
            {" "}
            ·{" "}
            <Link href={`/meters/${meter.key}/revisions/${meter.pending_revision.revision}`}>
              revision {meter.pending_revision.revision} is{" "}
              {meter.pending_revision.state.replaceAll("_", " ")}
            </Link>
          </>
        )}
      </p>
      {meter.description && <p>{meter.description}</p>}
      {meter.from_settings && <InSettings />}
      {!may("usage:read") ? (
        <p className="muted">
          To see its usage needs the scope <code>usage:read</code>.
        </p>
      ) : end.data === undefined && end.isFetching ? (
        <p className="muted">Loading …</p>
      ) : (
        <Usage meter={meter} end={endOf(end.data ?? new Date().toISOString())} />
      )}
      {may("events:read") && <Rejected meter={meter} />}
      <Revisions meter={meter} />
    </Page>
  );
}

/** The end of the minute of an instant: windows are of whole minutes, and change no more often. */
function endOf(instant: string): string {
  const range = { from: instant, to: instant };
  return aligned(range, "PT1M", "UTC").to;
}

function Usage({ meter, end }: { meter: Meter; end: string }) {
  const seen = useSeen(meter, end);
  const [compare] = useParam("compare");
  const { granularity: _, ...whole } = seen.query;
  const rows = useApi(
    ["usage", meter.key, "seen", seen.query],
    () => usageOfTop(meter.key, seen.query),
    SLOW_MS,
  );
  const total = useApi(
    ["usage", meter.key, "total", whole],
    () => usage(meter.key, { ...whole, group_by_dimensions: [] }),
    SLOW_MS,
  );
  const earlier = before(seen.range, seen.granularity, seen.zone);
  const past = useApi(
    ["usage", meter.key, "past", whole, seen.granularity],
    async () => ({
      rows: await usage(meter.key, { ...seen.query, ...earlier, group_by_dimensions: [] }),
      total: await usage(meter.key, { ...whole, ...earlier, group_by_dimensions: [] }),
    }),
    undefined,
    compare === "before",
  );
  const top = useApi(["usage", meter.key, "top", whole], () =>
    usage(meter.key, { ...whole, group_by_dimensions: ["subject"], top: 10 }),
  );
  const save = useMutation({ mutationFn: () => saveCsv(meter.key, seen.query) });
  const [now, then] = [
    total.data?.data[0],
    compare === "before" ? past.data?.total.data[0] : undefined,
  ];
  return (
    <>
      <Controls meter={meter} seen={seen} />
      <Card
        title={`Usage by ${WORDS[seen.granularity].toLowerCase()}`}
        aside={
          <div className="row">
            {now && (
              <Why
                question={questionOf(
                  meter.key,
                  { ...now, ...seen.range },
                  seen.subject || undefined,
                  seen.only,
                )}
              >
                <b>
                  <Figure value={now.value} />
                </b>
              </Why>
            )}
            {compare === "before" && past.data && !then && (
              <span className="muted">before: no usage</span>
            )}
            {then && (
              <span className="muted">
                before: {grouped(then.value)} ({change(then.value, now?.value) ?? "from nothing"})
              </span>
            )}
            <button
              type="button"
              className="button small"
              disabled={save.isPending}
              onClick={() => save.mutate()}
            >
              {save.isPending ? "Saving …" : "Save as CSV"}
            </button>
          </div>
        }
      >
        {save.error && <Failure error={save.error} />}
        {compare === "before" && <Answer of={past}>{() => null}</Answer>}
        <Answer of={rows}>
          {(found) => (
            <Windows
              meter={meter}
              seen={seen}
              found={found}
              limited={found.limited}
              past={compare === "before" ? past.data?.rows.data : undefined}
            />
          )}
        </Answer>
      </Card>
      <div className="cards">
        <Card title="Top subjects of this range">
          <Answer of={top}>{(found) => <Top meter={meter} seen={seen} rows={found.data} />}</Answer>
        </Card>
        <Programs meter={meter.key} query={seen.query} />
      </div>
    </>
  );
}

function Rejected({ meter }: { meter: Meter }) {
  const may = useMay();
  const [after] = useParam("rejected");
  const found = useApi(["rejected", meter.key, after], async () =>
    unwrap(
      await api.GET("/api/v3/metering/meters/{meterId}/rejected", {
        params: {
          path: { meterId: meter.key },
          query: { page: { size: 10, ...(after ? { after } : {}) } },
        },
      }),
    ),
  );
  return (
    <Answer of={found}>
      {({ data, meta }) =>
        data.length === 0 ? (
          <Facts of={[["Rejected values", "none: every value could be read"]]} />
        ) : (
          <Card
            title="Rejected values: these events matched, but their value cannot be used"
            aside={
              meta.page.next && (
                <button
                  type="button"
                  className="button small"
                  onClick={() => setParams({ rejected: meta.page.next ?? "" })}
                >
                  Next {data.length}
                </button>
              )
            }
          >
            <Table
              label="Rejected values"
              rows={data}
              id={(one) => one.position}
              columns={[
                { head: "Window", cell: (one) => <Time at={one.from} /> },
                { head: "Subject", cell: (one) => <Name>{one.subject}</Name> },
                { head: "Reason", cell: (one) => one.reason.replaceAll("_", " ") },
                {
                  head: "Value",
                  cell: (one) => (
                    <code>
                      <Name>{one.value}</Name>
                    </code>
                  ),
                },
                { head: "State", cell: (one) => <State of={one.state} /> },
                {
                  head: "Look",
                  cell: (one) => (
                    <Link href={`/refusals?refusal=${one.position}`}>
                      {may("events:write") && one.state === "open" ? "Mend it" : "See it"}
                    </Link>
                  ),
                },
              ]}
            />
          </Card>
        )
      }
    </Answer>
  );
}
