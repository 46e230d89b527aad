import { api, unwrap, type Schemas } from "../api.js";
import {
  Answer,
  Card,
  Choice,
  Code,
  CursorPages,
  Empty,
  EmptyPage,
  Link,
  Name,
  Page,
  State,
  Table,
  TextFilter,
  Time,
} from "../parts/basics.js";
import { grouped } from "../rules/figures.js";
import { posting } from "../rules/snippets.js";
import { SLOW_MS, setParams, useApi, useKeyed, useMay, useParam } from "../state.js";

export default function Syncs() {
  const may = useMay();
  const [search] = useParam("search");
  const [state] = useParam("state");
  const [after] = useParam("after");
  const reports = useApi(
    ["reports", "list", search, state, after],
    async () => {
      const filter = {
        ...(search ? { slug: { contains: search } } : {}),
        ...(state ? { state } : {}),
      };
      return unwrap(
        await api.GET("/api/v3/metering/reports", {
          params: { query: { filter, page: { size: 25, ...(after ? { after } : {}) } } },
        }),
      );
    },
    SLOW_MS,
  );
  return (
    <Page
      title="Syncs"
      aside={
        may("reports:write") && (
          <Link href="/new/syncs" className="button main">
            New sync
          </Link>
        )
      }
    >
      <div className="filters">
        <TextFilter
          label="Name contains"
          value={search}
          set={(text) => setParams({ search: text, after: "" })}
        />
        <Choice
          label="State"
          value={state}
          set={(one) => setParams({ state: one, after: "" })}
          options={[
            ["", "any"],
            ["active", "active"],
            ["paused", "paused"],
            ["parked", "parked"],
          ]}
        />
      </div>
      <Answer of={reports}>
        {({ data, meta }) =>
          data.length === 0 ? (
            <EmptyPage next={meta.page.next}>
              <None searched={search !== "" || state !== ""} />
            </EmptyPage>
          ) : (
            <>
              <Card title="Syncs">
                <List reports={data} />
              </Card>
              <CursorPages next={meta.page.next} />
            </>
          )
        }
      </Answer>
    </Page>
  );
}

function List({ reports }: { reports: readonly Schemas["Report"][] }) {
  return (
    <Table
      label="Syncs"
      rows={reports}
      id={(report) => report.id}
      columns={[
        {
          head: "Sync",
          cell: (report) => (
            <Link href={`/syncs/${encodeURIComponent(report.slug)}`}>
              <Name>{report.slug}</Name>
            </Link>
          ),
        },
        { head: "State", cell: (report) => <State of={report.state} /> },
        { head: "Receiver", cell: (report) => <State of={report.status.receiver.state} /> },
        {
          head: "Last run",
          cell: ({ status: { last_run: last } }) =>
            last ? (
              <>
                <State of={last.state} />{" "}
                <Time at={last.ended_at ?? last.decided_at ?? last.to} ago />
              </>
            ) : (
              <span className="muted">none</span>
            ),
        },
        {
          head: "Next run",
          cell: (report) =>
            report.status.next_run ? (
              <Time at={report.status.next_run.starts_at} ago />
            ) : (
              <span className="muted">none</span>
            ),
        },
        {
          head: "Owed",
          number: true,
          cell: (report) => grouped(String(report.status.owed_deliveries)),
        },
        {
          head: "Meter",
          cell: (report) => <Link href={`/meters/${report.meter.key}`}>{report.meter.key}</Link>,
        },
      ]}
    />
  );
}

function None({ searched }: { searched: boolean }) {
  const keyed = useKeyed();
  const may = useMay();
  if (searched) return <Empty title="No sync is like that">Take the filters out to see all.</Empty>;
  const report = {
    slug: "tokens-daily",
    meter_id_or_key: "tokens",
    type: "webhook",
    schedule: { interval: "1d" },
    endpoint: { url: "http://127.0.0.1:9000/" },
  };
  return (
    <Empty title="No sync yet">
      <p>
        A sync sends each subject's usage of every window to your billing system, as signed
        webhooks.
      </p>
      {may("reports:write") && (
        <p>
          <Link href="/new/syncs">Make one with a preview</Link>, or by a command:
        </p>
      )}
      <Code
        label="Command that makes a sync"
        text={posting(`${location.origin}/api/v3/metering/reports`, report, keyed)}
      />
      <p>The answer has the signing secret. With it, this receives and verifies what comes:</p>
      <Code
        label="Command that receives deliveries"
        text={'meterline receive --secret "$SECRET" --port 9000'}
      />
    </Empty>
  );
}
