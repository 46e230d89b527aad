import { api, unwrap, type Schemas } from "../api.js";
import { Answer, Copy, Facts, State, Time } from "../parts/basics.js";
import { Opened } from "../parts/opened.js";
import { grouped, many } from "../rules/figures.js";
import { setParams, SLOW_MS, useApi, useParam } from "../state.js";

type Run = Schemas["Run"];

/** The run that the URL names: its window, how it stands, and its manifest. */
export function RunManifest({ sync }: { sync: Schemas["Report"] }) {
  const [run] = useParam("run");
  const found = useApi(
    ["run", sync.id, run],
    async () =>
      unwrap(
        await api.GET("/api/v3/metering/reports/{reportId}/runs/{runId}", {
          params: { path: { reportId: sync.id, runId: run } },
        }),
      ),
    SLOW_MS,
    run !== "",
  );
  if (run === "") return null;
  return (
    <Opened key={run} title="Manifest of the run" close={() => setParams({ run: "", after: "" })}>
      <Answer of={found}>{(one) => <Manifest of={one} />}</Answer>
    </Opened>
  );
}

function Manifest({ of }: { of: Run }) {
  const { manifest } = of;
  return (
    <div className="form">
      <Facts
        of={[
          ["From", <Time key="f" at={of.from} />],
          ["To", <Time key="t" at={of.to} />],
          ["State", <State key="s" of={of.state} />],
          ...(manifest === undefined ? [] : figures(manifest)),
        ]}
      />
      <p className="muted">
        {manifest === undefined
          ? "Its bodies are not final yet. The manifest stands here once they are."
          : "These figures never change. Compare them with what your billing system booked."}
      </p>
    </div>
  );
}

function figures(of: NonNullable<Run["manifest"]>) {
  const { sequence_first: first, sequence_last: last } = of;
  const left = `${many(of.filtered_out, "entry", "entries")}, ${grouped(of.total_filtered_out)} in all`;
  return [
    ["Deliveries", grouped(String(of.deliveries))],
    ["Entries", grouped(String(of.entries))],
    ["Total of the values", grouped(of.total)],
    ["Left out by the filter", of.filtered_out === 0 ? "none" : left],
    ["Numbers of the deliveries", first === undefined ? "none" : `${first} to ${last}`],
    ["Complete until", <Time key="c" at={of.complete_until} />],
    [
      "Digest",
      <span key="d" className="row">
        <code>{of.digest.slice(0, 16)}…</code> <Copy text={of.digest} label="Copy digest" />
      </span>,
    ],
  ] as const;
}
