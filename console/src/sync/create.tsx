import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { api, unwrap, type Schemas } from "../api.js";
import { AskForm } from "../forms/ask-form.js";
import { Needs } from "../forms/fields.js";
import { faultsOf, together, type Faults } from "../forms/faults.js";
import { Secret } from "../forms/secret.js";
import { useStill } from "../forms/still.js";
import { Card, Code, Empty, Failure, Link, Loading, Page } from "../parts/basics.js";
import { windowsUntil, type Window } from "../rules/windows.js";
import { useApi, useMay } from "../state.js";
import { latest } from "../usage.js";
import { definitionOf, NEW, requestOf, SYNC_FIELDS, SyncFields, type Draft } from "./form.js";
import { Bodies, WindowChoice } from "./preview.js";
import { TestDelivery } from "./test-delivery.js";

type Meter = Schemas["Meter"];
const OFFERED = 50;
const WINDOWS = 6;
const BODIES = 20;

export default function CreateSync() {
  const [made, setMade] = useState<Schemas["ReportWithSecret"]>();
  return (
    <Page title="New sync" aside={<Link href="/syncs">All syncs</Link>}>
      <Needs scope="reports:write">
        {made === undefined ? <Form made={setMade} /> : <Made sync={made} />}
      </Needs>
    </Page>
  );
}

/** Meters whose key has a text in it, to choose from. */
function useMeters(text: string): readonly Meter[] {
  const may = useMay();
  const found = useApi(
    ["meters", "offered", text],
    async () => {
      const filter = text === "" ? {} : { filter: { key: { contains: text } } };
      const query = { page: { size: OFFERED }, ...filter };
      return unwrap(await api.GET("/api/v3/metering/meters", { params: { query } })).data;
    },
    undefined,
    may("meters:read"),
  );
  return found.data ?? [];
}

function Form({ made }: { made: (sync: Schemas["ReportWithSecret"]) => void }) {
  const client = useQueryClient();
  const [draft, setDraft] = useState<Draft>(NEW);
  const still = useStill(draft);
  const meters = useMeters(still.meter);
  const meter = meters.find((one) => one.key === draft.meter);
  const preview = usePreview(
    still,
    meters.find((one) => one.key === still.meter),
  );
  const create = useMutation({
    mutationFn: async () =>
      unwrap(await api.POST("/api/v3/metering/reports", { body: requestOf(draft) })),
    gcTime: 0, // its answer has the secret
    onSuccess: (sync) => {
      made(sync);
      void client.invalidateQueries({ queryKey: ["reports"] });
    },
  });
  const refused = faultsOf(create.error);
  return (
    <div className="workbench">
      <AskForm
        ask={create}
        submit="Create the sync"
        refused={refused}
        fields={SYNC_FIELDS}
        className="card form"
        hint="Its first window is the first that ends after this. The signing secret comes next, once."
      >
        <SyncFields
          draft={draft}
          set={setDraft}
          faults={together(refused, preview.faults)}
          meters={meters.map((one) => one.key)}
          dimensions={meter === undefined ? [] : Object.keys(meter.dimensions)}
        />
      </AskForm>
      <div className="beside">
        <Card title="What it would send">
          <PreviewOf preview={preview} />
        </Card>
      </div>
    </div>
  );
}

/** The bodies that a draft would send for a window that is over. */
function usePreview(draft: Draft, meter: Meter | undefined) {
  const may = useMay();
  const [place, setPlace] = useState(0);
  const [after, setAfter] = useState("");
  const end = useApi(
    ["latest", meter?.event_type],
    () => latest(meter?.event_type ?? ""),
    undefined,
    meter !== undefined && may("events:read"),
  );
  const newest = end.data ?? new Date().toISOString();
  const windows = windowsUntil(newest, draft.interval, Date.now(), WINDOWS);
  const window = windows[place] as Window;
  const settled = meter !== undefined && (end.data !== undefined || !may("events:read"));
  const report = { ...definitionOf(draft), slug: draft.slug || "new-sync" };
  const found = useApi(
    ["preview", "report", report, window, after],
    async () =>
      unwrap(
        await api.POST("/api/v3/metering/report-preview", {
          params: { query: { page: { size: BODIES, ...(after ? { after } : {}) } } },
          body: { report, ...window },
        }),
      ),
    undefined,
    settled && may("usage:read"),
  );
  const faults: Faults = settled ? faultsOf(found.error, "report.") : new Map();
  return { found, faults, windows, place, setPlace, setAfter, settled };
}

function PreviewOf({ preview }: { preview: ReturnType<typeof usePreview> }) {
  const { found, faults, windows, place, setPlace, setAfter, settled } = preview;
  const may = useMay();
  if (!may("usage:read"))
    return (
      <p className="muted">
        A preview needs the scope <code>usage:read</code>.
      </p>
    );
  if (!settled)
    return (
      <Empty title="Nothing to show yet">
        <p>Choose a meter. The bodies of its last windows are shown here as they would be sent.</p>
      </Empty>
    );
  return (
    <>
      <div className="filters">
        <WindowChoice
          windows={windows}
          at={place}
          set={(chosen) => {
            setAfter("");
            setPlace(chosen);
          }}
          error={faults.get("to") ?? faults.get("from")}
        />
      </div>
      {found.error ? (
        faults.size > 0 ? (
          <p className="fault">The preview waits: a field says what is wrong.</p>
        ) : (
          <Failure error={found.error} retry={() => void found.refetch()} />
        )
      ) : found.data === undefined ? (
        <Loading />
      ) : (
        <div className={`form${found.isPlaceholderData ? " stale" : ""}`}>
          <Bodies of={found.data} next={setAfter} />
        </div>
      )}
    </>
  );
}

/** What comes after: the secret, once; a test; the way to the sync. */
function Made({ sync }: { sync: Schemas["ReportWithSecret"] }) {
  return (
    <>
      <Card title={`${sync.slug} is made`}>
        <p>
          Each delivery is signed with this secret. The receiver verifies the signature with it.
        </p>
        <Secret label="Signing secret" text={sync.signing_secret} once={false} />
        <p className="muted">
          It is shown here this once. A key with the scope <code>secrets:read</code> can see it
          again, and that is recorded.
        </p>
        <p>This receives and verifies deliveries on this machine:</p>
        <Code
          label="Command that receives deliveries"
          text={`meterline receive --secret '${sync.signing_secret}' --port 9000`}
        />
        <div className="row">
          <Link href={`/syncs/${encodeURIComponent(sync.slug)}`} className="button main">
            Go to the sync
          </Link>
        </div>
      </Card>
      <TestDelivery sync={sync.id} />
    </>
  );
}
