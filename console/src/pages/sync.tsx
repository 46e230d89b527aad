import { useParams } from "wouter";

import { api, unwrap, type Schemas } from "../api.js";
import {
  Answer,
  Card,
  Choice,
  Copy,
  CursorPages,
  Empty,
  Facts,
  Link,
  Name,
  Page,
  State,
  Table,
  TextFilter,
  Time,
} from "../parts/basics.js";
import { DeliveryTable } from "../parts/delivery-table.js";
import { Why } from "../parts/why-link.js";
import { RunManifest } from "../sync/manifest.js";
import { RunLine } from "../sync/run-line.js";
import { Actions } from "../sync/actions.js";
import { Corrections } from "../sync/corrections.js";
import { Replays } from "../sync/replay.js";
import { useSync } from "../sync/sync.js";
import { SecretCard } from "../sync/secret-card.js";
import { TestDelivery } from "../sync/test-delivery.js";
import { WindowPreview } from "../sync/window-preview.js";
import { grouped, many } from "../rules/figures.js";
import { filterText, graceText, headersText, LATE, scheduleText } from "../rules/sync-change.js";
import { lasting, retimed } from "../rules/times.js";
import { SLOW_MS, setParams, useApi, useMay, useParam, useView } from "../state.js";

type Report = Schemas["Report"];
const RUNS = 20;
const STATES = ["pending", "sending", "retrying", "delivered", "failed", "cancelled"];

export default function SyncPage() {
  const { slug = "" } = useParams<{ slug: string }>();
  const report = useSync(slug);
  return (
    <Answer of={report} page={slug} all={<Link href="/syncs">All syncs</Link>}>
      {(found) => <One report={found} />}
    </Answer>
  );
}

function One({ report }: { report: Report }) {
  const { receiver, next_run, owed_deliveries, owed_seconds, last_error } = report.status;
  const may = useMay();
  const { zone } = useView();
  return (
    <Page
      title={<Name>{report.slug}</Name>}
      aside={may("reports:write") && <Actions sync={report} />}
    >
      {report.state !== "active" && (
        <div className="notice warn">
          <p>
            <strong>This sync is {report.state}.</strong> {report.state_reason} Nothing is sent
            until it is resumed.
          </p>
        </div>
      )}
      {last_error && (
        <div className="notice bad">
          <p>
            <strong>
              The last error, <Time at={last_error.at} ago />:
            </strong>{" "}
            {last_error.reason}
            {last_error.status !== undefined && ` (status ${last_error.status})`}
          </p>
          <Link href={`/deliveries/${last_error.delivery_id}`}>
            See the delivery and its attempts
          </Link>
        </div>
      )}
      <Card title="How it stands">
        <Facts
          of={[
            ["State", <State key="s" of={report.state} />],
            [
              "Meter",
              <Link key="m" href={`/meters/${report.meter.key}`}>
                {report.meter.key}
              </Link>,
            ],
            [
              "Sends to",
              <span key="u" className="row">
                <code>{report.endpoint.url}</code> <Copy text={report.endpoint.url} />
              </span>,
            ],
            ["Receiver", <State key="r" of={receiver.state} />],
            ["Runs", runs(report, zone)],
            ["Next run", next_run ? <Time key="n" at={next_run.starts_at} /> : "none"],
            [
              "Owed",
              `${many(owed_deliveries, "delivery", "deliveries")}${owed_seconds === undefined ? "" : `, the oldest for ${lasting(owed_seconds * 1000)}`}`,
            ],
            ["One entry for each", ["subject", ...report.query.group_by_dimensions].join(", ")],
            ["Filter", filterText(report.filter)],
            ["Headers", headersText(report.endpoint.header_names)],
            ["Late usage", LATE[report.revisions]],
            ["Waits for late events", graceText(report.grace_seconds)],
          ]}
        />
        {receiver.summary && <p className="muted">{retimed(receiver.summary, zone)}</p>}
      </Card>
      <Runs report={report} />
      <RunManifest sync={report} />
      <Corrections sync={report} />
      <Deliveries report={report} />
      <Replays sync={report} />
      <WindowPreview sync={report} />
      {may("reports:write") && <TestDelivery sync={report.id} />}
      <SecretCard sync={report} />
    </Page>
  );
}

/** The schedule in words; one that is about to end, too. */
function runs({ schedule, ending_schedule: ending }: Report, zone: string): string {
  if (ending === undefined) return retimed(scheduleText(schedule), zone);
  const until = `${scheduleText(ending)}, until ${ending.ends_at}; then ${scheduleText(schedule)}`;
  return retimed(until, zone);
}

function Runs({ report }: { report: Report }) {
  const [after] = useParam("runs_after");
  const runs = useApi(
    ["runs", report.id, after],
    async () =>
      unwrap(
        await api.GET("/api/v3/metering/reports/{reportId}/runs", {
          params: {
            path: { reportId: report.id },
            query: { page: { size: RUNS, ...(after ? { after } : {}) } },
          },
        }),
      ),
    SLOW_MS,
  );
  return (
    <Answer of={runs}>
      {({ data, meta }) => (
        <Card title="Runs, the newest first">
          {data.length === 0 ? (
            <Empty title="It has not run yet">
              It runs when its first window has ended; the next run stands above.
            </Empty>
          ) : (
            <>
              <RunLine runs={data} />
              <Table
                label="Runs"
                rows={data}
                id={(run) => run.id}
                columns={[
                  {
                    head: "Window",
                    cell: (run) => (
                      <>
                        <Time at={run.from} />{" "}
                        <span className="nowrap">
                          – <Time at={run.to} />
                        </span>
                      </>
                    ),
                  },
                  {
                    head: "State",
                    cell: (run) => (
                      <>
                        <State of={run.state} />{" "}
                        {run.reason && <span className="muted">{run.reason}</span>}
                      </>
                    ),
                  },
                  {
                    head: "By",
                    cell: (run) =>
                      run.revision > 1 ? `${run.trigger}, revision ${run.revision}` : run.trigger,
                  },
                  {
                    head: "Delivered",
                    number: true,
                    cell: (run) => grouped(String(run.delivered)),
                  },
                  { head: "Failed", number: true, cell: (run) => grouped(String(run.failed)) },
                  {
                    head: "Total",
                    number: true,
                    cell: (run) => <Total of={run} report={report} />,
                  },
                  {
                    head: "Ended",
                    cell: (run) =>
                      run.ended_at ? (
                        <Time at={run.ended_at} ago />
                      ) : (
                        <span className="muted">not yet</span>
                      ),
                  },
                  {
                    head: "Look",
                    cell: (run) => (
                      <div className="row">
                        <button
                          type="button"
                          className="button small"
                          onClick={() => setParams({ run: run.id, after: "" })}
                        >
                          Open the run
                        </button>
                        {run.revision > 1 && (
                          <button
                            type="button"
                            className="button small"
                            onClick={() =>
                              setParams({ corrections: run.id, corrections_after: "" })
                            }
                          >
                            Corrections
                          </button>
                        )}
                      </div>
                    ),
                  },
                ]}
              />
            </>
          )}
          <CursorPages next={meta.page.next} param="runs_after" />
        </Card>
      )}
    </Answer>
  );
}

/** What a run reported in all. It can be asked for where it is the usage of the whole meter: a filter
 * leaves entries out, and a correction has those that changed.
 */
function Total({ of, report }: { of: Schemas["Run"]; report: Report }) {
  if (of.manifest === undefined) return "";
  const { total } = of.manifest;
  if (report.filter !== undefined || of.revision > 1) return grouped(total);
  const question = { meter: report.meter.key, from: of.from, to: of.to, value: total };
  return <Why question={question}>{grouped(total)}</Why>;
}

function Deliveries({ report }: { report: Report }) {
  const [run] = useParam("run");
  const [state] = useParam("delivery");
  const [subject] = useParam("subject");
  const [after] = useParam("after");
  const filter = {
    report: report.id,
    ...(run ? { run } : {}),
    ...(state ? { state } : {}),
    ...(subject ? { subject } : {}),
  };
  const found = useApi(
    ["deliveries", filter, after],
    async () =>
      unwrap(
        await api.GET("/api/v3/metering/deliveries", {
          params: { query: { filter, page: { size: 25, ...(after ? { after } : {}) } } },
        }),
      ),
    SLOW_MS,
  );
  return (
    <Card title="Deliveries">
      <div className="filters">
        <Choice
          label="State"
          value={state}
          set={(one) => setParams({ delivery: one, after: "" })}
          options={[["", "any"], ...STATES.map((one) => [one, one] as const)]}
        />
        <TextFilter
          label="Subject"
          value={subject}
          set={(one) => setParams({ subject: one, after: "" })}
        />
        {run && (
          <button
            type="button"
            className="button"
            onClick={() => setParams({ run: "", after: "" })}
          >
            Only one run ✕
          </button>
        )}
      </div>
      <Answer of={found}>
        {({ data, meta }) => (
          <>
            {data.length === 0 ? (
              <Empty title="No delivery is like that" />
            ) : (
              <DeliveryTable rows={data} />
            )}
            <CursorPages next={meta.page.next} />
          </>
        )}
      </Answer>
    </Card>
  );
}
