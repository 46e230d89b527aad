import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { api, unwrap, type Schemas } from "../api.js";
import { AskForm } from "../forms/ask-form.js";
import { Needs } from "../forms/fields.js";
import { faultsOf, together } from "../forms/faults.js";
import { Secret } from "../forms/secret.js";
import { useStill } from "../forms/still.js";
import { Card, Code, Link, Page } from "../parts/basics.js";
import { useApi, useMay } from "../state.js";
import { PreviewOf, usePreview } from "./draft-preview.js";
import { definitionOf, NEW, requestOf, SYNC_FIELDS, SyncFields, type Draft } from "./form.js";
import { TestDelivery } from "./test-delivery.js";

type Meter = Schemas["Meter"];
const OFFERED = 50;

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

async function metersOf(key?: { readonly contains: string } | { readonly eq: string }) {
  const query = { page: { size: OFFERED }, ...(key ? { filter: { key } } : {}) };
  return unwrap(await api.GET("/api/v3/metering/meters", { params: { query } })).data;
}

/** Meters whose key has a text in it, to choose from: the one whose key it is is always among them. */
function useMeters(text: string): readonly Meter[] {
  const may = useMay();
  const found = useApi(
    ["meters", "offered", text],
    async () => {
      if (text === "") return metersOf();
      const some = await metersOf({ contains: text });
      if (some.length < OFFERED || some.some((one) => one.key === text)) return some;
      return [...(await metersOf({ eq: text })), ...some];
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
    { ...definitionOf(still), slug: still.slug || "new-sync" },
    still.interval,
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
