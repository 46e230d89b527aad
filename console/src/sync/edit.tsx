import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useLocation, useParams } from "wouter";

import { api, unwrap, type Schemas } from "../api.js";
import { AskForm } from "../forms/ask-form.js";
import { Needs } from "../forms/fields.js";
import { faultsOf, together } from "../forms/faults.js";
import { useStill } from "../forms/still.js";
import { useMeter } from "../meter/meter.js";
import {
  Answer,
  Card,
  Empty,
  Facts,
  Failure,
  Link,
  Loading,
  Name,
  Page,
  Table,
} from "../parts/basics.js";
import {
  changeOf,
  differences,
  editOf,
  hiddenIn,
  type Difference,
  type Edit,
} from "../rules/sync-change.js";
import { retimed } from "../rules/times.js";
import { isInterval } from "../rules/windows.js";
import { useApi, useMay, useView } from "../state.js";
import { PreviewOf, usePreview } from "./draft-preview.js";
import { EditFields } from "./edit-fields.js";
import { useSync } from "./sync.js";

type Report = Schemas["Report"];

/** What stands in a trial for the value of a header, so that no store of the page has it. */
const UNSHOWN = "unshown";

/** The fields that the form shows faults of. */
const FIELDS = ["schedule", "query", "endpoint", "filter", "revisions", "grace_seconds"];

export default function EditSync() {
  const { slug = "" } = useParams<{ slug: string }>();
  const sync = useSync(slug);
  return (
    <Answer of={sync} page={`Edit ${slug}`} all={<Link href="/syncs">All syncs</Link>}>
      {(found) => (
        <Page
          title={
            <>
              Edit <Name>{found.slug}</Name>
            </>
          }
          aside={<Link href={`/syncs/${slug}`}>Back to the sync</Link>}
        >
          <Needs scope="reports:write">
            <Form sync={found} />
          </Needs>
        </Page>
      )}
    </Answer>
  );
}

async function put(sync: Report, edit: Edit, dry_run: boolean): Promise<Report> {
  const params = { path: { reportId: sync.id } };
  const body = { ...changeOf(edit, sync), dry_run };
  return unwrap(await api.PUT("/api/v3/metering/reports/{reportId}", { params, body }));
}

function Form({ sync }: { sync: Report }) {
  const [, navigate] = useLocation();
  const client = useQueryClient();
  const may = useMay();
  const [edit, setEdit] = useState<Edit>(() => editOf(sync));
  const still = useStill({ ...edit, headerValue: UNSHOWN });
  const changes = Object.keys(changeOf(still, sync)).length > 0;
  const trial = useApi(
    ["trial", sync.id, sync.updated_at, still],
    () => put(sync, still, true),
    undefined,
    changes,
  );
  const meter = useMeter(sync.meter.key, may("meters:read")).data;
  const after = changes && trial.data ? trial.data : sync;
  const { slug, query, filter } = after;
  const preview = usePreview(
    { slug, meter_id_or_key: sync.meter.id, query, ...(filter ? { filter } : {}) },
    isInterval(after.schedule.interval) ? after.schedule.interval : "1d",
    meter,
    after.schedule.start_at,
  );
  const save = useMutation({
    mutationFn: () => put(sync, edit, false),
    onSuccess: async () => {
      navigate(`/syncs/${encodeURIComponent(sync.slug)}`);
      await client.invalidateQueries();
    },
  });
  const refused = faultsOf(save.error);
  const tried = changes ? faultsOf(trial.error) : new Map<string, string>();
  return (
    <div className="workbench">
      <AskForm
        ask={save}
        submit="Save the changes"
        refused={refused}
        fields={FIELDS}
        className="card form"
      >
        <EditFields
          of={edit}
          set={setEdit}
          sync={sync}
          faults={together(refused, tried)}
          dimensions={meter ? Object.keys(meter.dimensions) : query.group_by_dimensions}
        />
      </AskForm>
      <div className="beside">
        <Card title="What changes">
          {!changes ? (
            <Empty title="Nothing is changed yet">
              <p>What you change is listed here, with when it takes effect.</p>
            </Empty>
          ) : tried.size > 0 ? (
            <p className="fault">The preview waits: a field says what is wrong.</p>
          ) : trial.error ? (
            <Failure error={trial.error} retry={() => void trial.refetch()} />
          ) : trial.data === undefined ? (
            <Loading />
          ) : (
            <Changes of={differences(sync, trial.data, hiddenIn(still))} />
          )}
        </Card>
        <Stays sync={sync} />
        <Card title="What it would send">
          <PreviewOf preview={preview} />
        </Card>
      </div>
    </div>
  );
}

function Changes({ of }: { of: readonly Difference[] }) {
  const { zone } = useView();
  if (of.length === 0) return <Empty title="That is what it is already" />;
  return (
    <Table
      label="Changes"
      rows={of}
      id={(one) => one.what}
      columns={[
        { head: "What", cell: (one) => one.what },
        {
          head: "Now",
          cell: (one) => (
            <div className="words">
              <span className="was">{retimed(one.before, zone)}</span>
            </div>
          ),
        },
        {
          head: "Then",
          cell: (one) => (
            <div className="words">
              <ins className="becomes">{retimed(one.after, zone)}</ins>
            </div>
          ),
        },
        {
          head: "From when",
          cell: (one) => <div className="words">{retimed(one.when, zone)}</div>,
        },
      ]}
    />
  );
}

function Stays({ sync }: { sync: Report }) {
  return (
    <Card title="What cannot be changed">
      <Facts
        of={[
          ["Name", <Name key="n">{sync.slug}</Name>],
          ["Meter", <code key="m">{sync.meter.key}</code>],
        ]}
      />
      <p className="muted">
        Each delivery names both, and receivers book by them. To send another meter, or under
        another name, <Link href="/new/syncs">make another sync</Link>, then end this one. The
        signing secret is rotated on the <Link href={`/syncs/${sync.slug}`}>page of the sync</Link>.
      </p>
    </Card>
  );
}
