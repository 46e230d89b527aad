import { Suspense, lazy, useEffect, useState, type ReactNode } from "react";

import { api, unwrap, type Schemas } from "../api.js";
import {
  Answer,
  Card,
  Empty,
  Failures,
  Figure,
  Link,
  Loading,
  Page,
  State,
  Table,
  Time,
} from "../parts/basics.js";
import { HourBars } from "../parts/hour-bars.js";
import { grouped, many, rateText, share } from "../rules/figures.js";
import { troubles, type Trouble } from "../rules/health.js";
import { hoursOf } from "../rules/hours.js";
import { rateOf, sampled, type Sample } from "../rules/rate.js";
import { lasting, retimed } from "../rules/times.js";
import { LIVE_MS, SLOW_MS, useApi, useMay, useView } from "../state.js";
import { useTour, type Tour } from "../tour/place.js";

const TheTour = lazy(() => import("../tour/tour.js"));

type Status = Schemas["Status"];
type Accounts = Schemas["Accounts"];
type Report = Schemas["Report"];
type Reports = Schemas["ReportPage"];

const SYNCS_SHOWN = 100;

export function Overview() {
  const may = useMay();
  const status = useApi(
    ["status"],
    async () => unwrap(await api.GET("/api/v3/metering/status")),
    LIVE_MS,
  );
  const accounts = useApi(
    ["accounts"],
    async () =>
      unwrap(await api.GET("/api/v3/metering/accounts", { params: { query: { meters: false } } })),
    SLOW_MS,
    may("usage:read"),
  );
  const reports = useApi(
    ["reports", "overview"],
    async () =>
      unwrap(
        await api.GET("/api/v3/metering/reports", {
          params: { query: { page: { size: SYNCS_SHOWN } } },
        }),
      ),
    SLOW_MS,
    may("reports:read"),
  );
  const received = status.data?.account?.received;
  const tour = useTour(received, reports.data?.data.length ?? (reports.error ? 0 : undefined));
  return (
    <Page title="Overview">
      {tour.on && (
        <Suspense fallback={<Loading />}>
          <TheTour end={tour.end} />
        </Suspense>
      )}
      {tour.deciding && <Loading />}
      {!tour.deciding && !(tour.on && received === 0) && (
        <>
          <Failures of={[status, accounts, reports]} />
          <Answer of={status} told>
            {(found) => (
              <>
                <Wrong status={found} accounts={accounts.data} syncs={reports.data} />
                <Tiles
                  status={found}
                  answeredMs={status.dataUpdatedAt}
                  accounts={accounts.data}
                  syncs={reports.data}
                />
              </>
            )}
          </Answer>
          {received === 0 && accounts.data?.total.received === 0 && <FirstEvent tour={tour} />}
          {may("usage:read") && (
            <Answer of={accounts} told>
              {(found) => <AccountCard accounts={found} />}
            </Answer>
          )}
          <div className="cards">
            {status.data?.partitions && <Partitions status={status.data} />}
            {may("reports:read") && (
              <Answer of={reports} told>
                {(found) => <Syncs reports={found.data} />}
              </Answer>
            )}
          </div>
        </>
      )}
    </Page>
  );
}

/** What is said of all syncs, where there are more than are asked for. */
function ofFirst(syncs: Reports): string {
  return syncs.meta.page.next === null ? "" : ` of the first ${SYNCS_SHOWN} syncs`;
}

function Wrong({
  status,
  accounts,
  syncs,
}: {
  status: Status;
  accounts: Accounts | undefined;
  /** Undefined where they are not known, or not shown to this key. */
  syncs: Reports | undefined;
}) {
  // Of the last day: what was refused a year ago is no trouble of today.
  const judged = { ...status, account: accounts?.total ?? null };
  const found = troubles(judged, syncs?.data ?? []);
  if (found.length === 0) {
    return (
      <div className="notice good" role="status">
        <p>
          <strong>{syncs === undefined ? "Counting is well." : "Nothing is wrong."}</strong>{" "}
          {status.caught_up
            ? "Everything received is counted"
            : `${many(status.lag_records ?? 0, "record")} are being counted`}
          {syncs !== undefined && `, and no delivery${ofFirst(syncs)} is late`}.
        </p>
      </div>
    );
  }
  return (
    <ul className="troubles" aria-label="What is wrong">
      {found.map((one) => (
        <Line key={one.what} of={one} />
      ))}
    </ul>
  );
}

/** An address of events, for a key that may see them. */
function useEventsAt(): (path: string) => string | undefined {
  const may = useMay();
  return (path) => (may("events:read") ? path : undefined);
}

function Line({ of }: { of: Trouble }) {
  const { zone } = useView();
  const eventsAt = useEventsAt();
  const link = of.link?.startsWith("/syncs") ? of.link : of.link && eventsAt(of.link);
  return (
    <li className={`notice ${of.level}`}>
      <p>
        <strong>{of.what}</strong>
      </p>
      <p>
        {retimed(of.todo, zone)}{" "}
        {link && (
          <Link href={link} className="nowrap">
            Show it
          </Link>
        )}
      </p>
    </li>
  );
}

/** Events a second, from what was received between the answers of the last seconds. */
function useRate(received: number | undefined, answeredMs: number): number | undefined {
  const [samples, setSamples] = useState<readonly Sample[]>([]);
  useEffect(() => {
    if (received !== undefined) setSamples((last) => sampled(last, [answeredMs, received]));
  }, [received, answeredMs]);
  return rateOf(samples);
}

function Tiles({
  status,
  answeredMs,
  accounts,
  syncs,
}: {
  status: Status;
  answeredMs: number;
  accounts: Accounts | undefined;
  syncs: Reports | undefined;
}) {
  const eventsAt = useEventsAt();
  const rate = useRate(status.account?.received ?? undefined, answeredMs);
  const reports = syncs?.data ?? [];
  const owed = reports.reduce((sum, report) => sum + report.status.owed_deliveries, 0);
  const out = reports.filter((report) =>
    ["down", "failing"].includes(report.status.receiver.state),
  ).length;
  return (
    <div className="tiles">
      {status.account !== undefined && (
        <Tile value={rate === undefined ? "…" : rateText(rate)} words="events a second now" />
      )}
      {accounts && (
        <Tile
          value={grouped(String(accounts.total.received))}
          words="events in 24 hours"
          link={eventsAt("/events?sort=ingested_at")}
        />
      )}
      <Tile
        value={status.freshness_ms === null ? "unknown" : lasting(status.freshness_ms)}
        words="age of the newest complete usage"
      />
      <Tile
        value={status.lag_records === null ? "unknown" : grouped(String(status.lag_records))}
        words="records not counted yet"
      />
      {syncs && (
        <Tile
          value={grouped(String(owed))}
          words={`deliveries${ofFirst(syncs)} owed`}
          link="/syncs"
        />
      )}
      {syncs && (
        <Tile
          value={String(out)}
          words={`${out === 1 ? "receiver" : "receivers"}${ofFirst(syncs)} ${out === 1 ? "is" : "are"} out`}
          link="/syncs"
          tone={out > 0 ? "bad" : ""}
        />
      )}
    </div>
  );
}

function Tile({
  value,
  words,
  link,
  tone = "",
}: {
  value: ReactNode;
  words: string;
  link?: string | undefined;
  tone?: string;
}) {
  const inner = (
    <>
      <b>{value}</b>
      <span>{words}</span>
    </>
  );
  if (link === undefined) return <div className={`tile ${tone}`}>{inner}</div>;
  return (
    <Link href={link} className={`tile ${tone}`}>
      {inner}
    </Link>
  );
}

const VERDICTS = [
  ["new", "new: they count"],
  ["duplicate", "duplicate: sent again, counted once"],
  ["conflict", "conflict: sent again with other contents"],
  ["invalid", "invalid: cannot be read"],
] as const;

function AccountCard({ accounts }: { accounts: Accounts }) {
  const { total } = accounts;
  const eventsAt = useEventsAt();
  return (
    <Card
      title="Where the events of the last 24 hours went"
      aside={<span className="muted">{many(total.received, "event")} received</span>}
    >
      <div className="account" aria-hidden="true">
        {VERDICTS.filter(([verdict]) => total[verdict] > 0).map(([verdict]) => (
          <span key={verdict} className={verdict} style={{ flexGrow: total[verdict] }} />
        ))}
      </div>
      <div className="tiles">
        {VERDICTS.map(([verdict, words]) => (
          <Tile
            key={verdict}
            value={<Figure value={String(total[verdict])} />}
            words={`${words} (${share(total[verdict], total.received)})`}
            link={eventsAt(`/events?verdict=${verdict}&sort=ingested_at`)}
          />
        ))}
      </div>
      <HourBars hours={hoursOf(accounts)} />
      {total.unmatched > 0 && (
        <p className="muted">
          {many(total.unmatched, "event")} of the new ones match no meter.{" "}
          <Link href="/meters">See what the meters select</Link>.
        </p>
      )}
    </Card>
  );
}

function Partitions({ status }: { status: Status }) {
  return (
    <Card
      title="Counting by partition"
      aside={
        <span className="muted">
          complete until <Time at={status.complete_until} />
        </span>
      }
    >
      <Table
        label="Partitions"
        rows={status.partitions ?? []}
        id={(one) => String(one.partition)}
        columns={[
          { head: "Partition", cell: (one) => one.partition },
          { head: "Records", number: true, cell: (one) => grouped(String(one.end ?? "unknown")) },
          {
            head: "Not counted",
            number: true,
            cell: (one) => grouped(String(one.lag_records ?? "unknown")),
          },
          { head: "Complete", cell: (one) => <Time at={one.complete_until} ago /> },
        ]}
      />
    </Card>
  );
}

function Syncs({ reports }: { reports: readonly Report[] }) {
  const may = useMay();
  const rank = (report: Report) =>
    report.status.receiver.state === "well" || report.status.receiver.state === "untried" ? 1 : 0;
  const first = [...reports]
    .sort((a, b) => rank(a) - rank(b) || b.status.owed_deliveries - a.status.owed_deliveries)
    .slice(0, 6);
  return (
    <Card title="Syncs" aside={<Link href="/syncs">All syncs</Link>}>
      {reports.length === 0 ? (
        <Empty title="No sync sends usage yet">
          <p>
            A sync sends each customer's usage to your billing system.
            {may("reports:write") && (
              <>
                {" "}
                <Link href="/new/syncs">Make the first one</Link>.
              </>
            )}
          </p>
        </Empty>
      ) : (
        <Table
          label="Syncs"
          rows={first}
          id={(report) => report.id}
          columns={[
            {
              head: "Sync",
              cell: (report) => (
                <Link href={`/syncs/${encodeURIComponent(report.slug)}`}>{report.slug}</Link>
              ),
            },
            { head: "Receiver", cell: (report) => <State of={report.status.receiver.state} /> },
            {
              head: "Last run",
              cell: (report) =>
                report.status.last_run ? (
                  <State of={report.status.last_run.state} />
                ) : (
                  <span className="muted">none</span>
                ),
            },
            {
              head: "Owed",
              number: true,
              cell: (report) => grouped(String(report.status.owed_deliveries)),
            },
          ]}
        />
      )}
    </Card>
  );
}

function FirstEvent({ tour }: { tour: Tour }) {
  const may = useMay();
  const eventsAt = useEventsAt();
  return (
    <Card title="Send the first event">
      <Empty title="No event has arrived yet">
        {may("meters:write") && eventsAt("/events") ? (
          <p>
            <Link href="/new/meters">Make a meter</Link>, then{" "}
            <Link href="/events">send an event</Link>: it appears here within seconds.
          </p>
        ) : (
          <p>An event appears here within seconds of being sent.</p>
        )}
        {tour.allowed && (
          <p>
            <button type="button" className="button" onClick={tour.begin}>
              Take the tour
            </button>
          </p>
        )}
      </Empty>
    </Card>
  );
}
