import { useQueryClient } from "@tanstack/react-query";
import { useEffect, useRef } from "react";

import { api, unwrap, type Schemas } from "../api.js";
import { LIVE_MS, useApi, useMay } from "../state.js";
import "../styles/tour.css";
import { usage } from "../usage.js";
import { MakeMeter, MeterMade } from "./meter-step.js";
import { Counted, Send, Sent, Watch } from "./send-step.js";
import { Delivered, MakeSync, Receive, SyncMade } from "./sync-step.js";

/** The first five minutes, in the page. Where it stands is read from the server: a step may also be
 * done by a command, and a page that is loaded anew goes on where it was.
 */
export default function TheTour({ end }: { end: () => void }) {
  const client = useQueryClient();
  const found = useProgress();
  const steps = stepsOf(found);
  const now = steps.findIndex((step) => !step.done);
  const list = useRef<HTMLOListElement>(null);
  const before = useRef(now);
  useEffect(() => {
    // The button that was pressed is gone with its step: the next step takes the focus.
    if (before.current !== now && document.activeElement === document.body)
      list.current?.querySelector<HTMLElement>("[aria-current] h3, .finish")?.focus();
    if (before.current !== now) void client.invalidateQueries({ queryKey: ["accounts"] });
    before.current = now;
  }, [now, client]);
  if (!found.known) return <p role="status">Loading …</p>;
  return (
    <section className="card tour" aria-label="Tour">
      <div className="card-head">
        <h2>From nothing to a verified webhook, in five minutes</h2>
        <button type="button" className="button small" onClick={end}>
          Dismiss the tour
        </button>
      </div>
      <p className="muted">
        Nothing is metered here yet. Each step is done in this page; what you do in a terminal
        instead is noticed too.
      </p>
      <p className="unseen" role="status">
        {now < 0 ? "All steps are done." : `Step ${now + 1} of ${steps.length}.`}
      </p>
      <ol className="steps" ref={list}>
        {steps.map((step, place) => (
          <li
            key={step.title}
            className={step.done ? "done" : place === now ? "now" : "later"}
            aria-current={place === now ? "step" : undefined}
          >
            <h3 tabIndex={-1}>
              {step.title}
              {step.done && <span className="state good">done</span>}
            </h3>
            {step.done ? step.after : place === now ? step.todo : null}
          </li>
        ))}
      </ol>
      {now < 0 && (
        <div className="notice good finish" tabIndex={-1}>
          <p>
            <strong>That is all of it.</strong> Your own events and your billing system go the same
            way.
          </p>
          <button type="button" className="button main" onClick={end}>
            Show the overview
          </button>
        </div>
      )}
    </section>
  );
}

type Progress = ReturnType<typeof useProgress>;

function stepsOf({ meter, event, at, row, sync, run }: Progress) {
  const delivered = run !== undefined && run.ended_at !== undefined && run.delivered > 0;
  return [
    {
      title: "Make a meter",
      done: meter !== undefined,
      todo: <MakeMeter />,
      after: meter && <MeterMade meter={meter} />,
    },
    {
      title: "Send an event",
      done: event !== undefined,
      todo: meter && <Send meter={meter} />,
      after: event && <Sent event={event} />,
    },
    {
      title: "Watch it appear",
      done: row !== undefined,
      todo: <Watch />,
      after: meter && row && <Counted meter={meter} row={row} />,
    },
    {
      title: "Make a sync to your billing system",
      done: sync !== undefined,
      todo: meter && at && <MakeSync meter={meter} at={at} />,
      after: sync && <SyncMade sync={sync} />,
    },
    {
      title: "See it arrive, signed and verified",
      done: delivered,
      todo: sync && at && <Receive sync={sync} at={at} run={run} />,
      after: delivered && <Delivered run={run} />,
    },
  ];
}

/** What there is already. Only what the next step waits for is asked again and again. */
function useProgress() {
  const may = useMay();
  const meters = useApi(
    ["meters", "tour"],
    async () =>
      unwrap(await api.GET("/api/v3/metering/meters", { params: { query: { page: { size: 1 } } } }))
        .data,
    LIVE_MS,
  );
  const meter = meters.data?.[0];
  const events = useApi(
    ["events", "tour", meter?.event_type],
    async () => {
      const filter = { type: { eq: meter?.event_type ?? "" }, verdict: { eq: "new" as const } };
      const query = { filter, page: { size: 1 } };
      return unwrap(await api.GET("/api/v3/metering/events", { params: { query } })).data;
    },
    LIVE_MS,
    meter !== undefined,
  );
  const listed = events.data?.[0];
  const event = listed?.event ?? undefined;
  const at = event?.time ?? listed?.ingested_at;
  const rows = useApi(
    ["usage", meter?.key, "tour"],
    async () => (await usage(meter?.key ?? "", {})).data,
    LIVE_MS,
    event !== undefined,
  );
  const row = rows.data?.find((one) => one.counted > 0);
  const reports = useApi(
    ["reports", "tour"],
    async () =>
      unwrap(
        await api.GET("/api/v3/metering/reports", { params: { query: { page: { size: 1 } } } }),
      ).data,
    LIVE_MS,
    may("reports:read"),
  );
  const sync = reports.data?.[0];
  const runs = useApi(
    ["runs", sync?.id, "tour"],
    async () =>
      unwrap(
        await api.GET("/api/v3/metering/reports/{reportId}/runs", {
          params: { path: { reportId: sync?.id ?? "" }, query: { page: { size: 10 } } },
        }),
      ).data,
    LIVE_MS,
    sync !== undefined,
  );
  const asked: readonly Schemas["Run"][] = runs.data ?? [];
  const run =
    asked.find((one) => one.delivered > 0) ?? asked.find((one) => one.trigger === "manual");
  const known = meters.data !== undefined && reports.data !== undefined;
  return { known, meter, event, at, row, sync, run };
}
