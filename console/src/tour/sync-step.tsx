import { useMutation, useQueryClient } from "@tanstack/react-query";

import { api, unwrap, type Schemas } from "../api.js";
import { Code, Failure, Link, Name } from "../parts/basics.js";
import { many } from "../rules/figures.js";
import { endedInterval, windowOf } from "../rules/first.js";
import { LIVE_MS, useApi, useMay } from "../state.js";
import { Field } from "./meter-step.js";

/** A small form; the page Syncs has the whole one. `at` is the time of the event to report. */
export function MakeSync({ meter, at }: { meter: Schemas["Meter"]; at: string }) {
  const client = useQueryClient();
  const make = useMutation({
    mutationFn: async (body: Schemas["ReportRequest"]) =>
      unwrap(await api.POST("/api/v3/metering/reports", { body })),
    onSuccess: () => client.invalidateQueries({ queryKey: ["reports"] }),
  });
  return (
    <>
      <p>
        A sync sends each subject's usage to an address, as signed webhooks, whenever a window has
        ended. The next step starts a receiver at this address.
      </p>
      <form
        className="filters"
        onSubmit={(sent) => {
          sent.preventDefault();
          const form = new FormData(sent.currentTarget);
          make.mutate({
            slug: String(form.get("slug")),
            meter_id_or_key: meter.key,
            type: "webhook",
            schedule: { interval: endedInterval(at, Date.now()) },
            query: { group_by_dimensions: Object.keys(meter.dimensions) },
            endpoint: { url: String(form.get("url")) },
          });
        }}
      >
        <Field
          label="Name"
          name="slug"
          value={`${meter.key.replaceAll("_", "-")}-daily`}
          pattern="[a-z0-9][a-z0-9\-]*"
        />
        <Field label="Address" name="url" value="http://127.0.0.1:9000/" type="url" />
        <button type="submit" className="button main" disabled={make.isPending}>
          Make the sync
        </button>
      </form>
      {make.error && <Failure error={make.error} />}
    </>
  );
}

export function SyncMade({ sync }: { sync: Schemas["Report"] }) {
  return (
    <p className="muted">
      <Link href={`/syncs/${encodeURIComponent(sync.slug)}`}>
        <Name>{sync.slug}</Name>
      </Link>{" "}
      sends to <Name>{sync.endpoint.url}</Name>.
    </p>
  );
}

/** Start a receiver, see that it answers, then send the usage of the event's window. */
export function Receive({
  sync,
  at,
  run,
}: {
  sync: Schemas["Report"];
  at: string;
  run: Schemas["Run"] | undefined;
}) {
  const client = useQueryClient();
  const params = { path: { reportId: sync.id } };
  const window = windowOf(at, sync.schedule.interval);
  const send = useMutation({
    mutationFn: async () => {
      const test = unwrap(await api.POST("/api/v3/metering/reports/{reportId}/test", { params }));
      if (test.delivered)
        unwrap(
          await api.POST("/api/v3/metering/reports/{reportId}/runs", { params, body: window }),
        );
      return test;
    },
    onSuccess: () => client.invalidateQueries({ queryKey: ["runs", sync.id] }),
  });
  return (
    <>
      <p>
        Start a receiver in a terminal, in the folder where Meterline is installed. It verifies each
        delivery by its signature before it prints it.
      </p>
      <Command sync={sync} />
      <div className="row">
        <button
          type="button"
          className="button main"
          disabled={send.isPending || run !== undefined}
          onClick={() => send.mutate()}
        >
          Send the usage
        </button>
        {send.isPending && (
          <span className="muted" role="status">
            Asking the receiver …
          </span>
        )}
      </div>
      {send.error && <Failure error={send.error} />}
      {send.data && !send.data.delivered && run === undefined && (
        <div className="notice warn" role="alert">
          <p>
            <strong>The receiver did not take a test delivery.</strong> {send.data.verdict}
          </p>
          <p>Start it by the command above, then send again.</p>
        </div>
      )}
      {run && <Waiting run={run} sync={sync} />}
    </>
  );
}

function Command({ sync }: { sync: Schemas["Report"] }) {
  const may = useMay()("secrets:read");
  const secret = useApi(
    ["secret", sync.id],
    async () =>
      unwrap(
        await api.GET("/api/v3/metering/reports/{reportId}/secret", {
          params: { path: { reportId: sync.id } },
        }),
      ).signing_secret,
    undefined,
    may,
  );
  if (secret.error) return <Failure error={secret.error} retry={() => void secret.refetch()} />;
  if (may && secret.data === undefined) return <p role="status">Loading …</p>;
  const port = new URL(sync.endpoint.url).port || "80";
  const text = `. .venv/bin/activate\nmeterline receive --port ${port} --secret ${secret.data ?? '"$SECRET"'}`;
  return (
    <>
      {!may && (
        <p className="muted">
          Your key may not read the signing secret. Ask whoever may for it, and set SECRET to it.
        </p>
      )}
      <Code label="Command that receives deliveries" text={text} />
    </>
  );
}

const WORDS: Readonly<Record<string, string>> = {
  scheduled: "The run waits for its window to end.",
  waiting:
    "The run waits until everything sent before it is surely counted: about twelve seconds, and a minute more if its window has just ended.",
  materializing: "The bodies are being written.",
  delivering: "The deliveries are being sent.",
};

function Waiting({ run, sync }: { run: Schemas["Run"]; sync: Schemas["Report"] }) {
  const deliveries = useApi(
    ["deliveries", "tour", run.id],
    async () => {
      const query = { filter: { report: sync.id, run: run.id }, page: { size: 10 } };
      return unwrap(await api.GET("/api/v3/metering/deliveries", { params: { query } })).data;
    },
    LIVE_MS,
  );
  const late = deliveries.data?.find((one) => ["retrying", "failed"].includes(one.state));
  return (
    <>
      <p role="status">{WORDS[run.state] ?? `The run is ${run.state}. ${run.reason ?? ""}`}</p>
      {late && (
        <div className="notice warn" role="alert">
          <p>
            <strong>The receiver does not take it.</strong> {late.failure} It is sent again by
            itself; <Link href={`/deliveries/${late.id}`}>see its attempts</Link>.
          </p>
        </div>
      )}
    </>
  );
}

export function Delivered({ run }: { run: Schemas["Run"] }) {
  const deliveries = useApi(["deliveries", "tour", run.id, "done"], async () => {
    const query = { filter: { run: run.id }, page: { size: 1 } };
    return unwrap(await api.GET("/api/v3/metering/deliveries", { params: { query } })).data;
  });
  const first = deliveries.data?.[0];
  return (
    <p className="muted">
      {many(run.delivered, "delivery", "deliveries")} arrived, and the receiver answered that the
      signature is right. {first && <Link href={`/deliveries/${first.id}`}>See the bytes</Link>}
    </p>
  );
}
