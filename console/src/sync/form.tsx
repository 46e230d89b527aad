import { Field } from "../forms/fields.js";
import { faultAt, type Faults } from "../forms/faults.js";
import type { Schemas } from "../api.js";
import { filterOf } from "../rules/sync-change.js";
import { Every, Groups, HeaderValue, Late, Only, type Said } from "./fields.js";

export interface Draft extends Said {
  readonly slug: string;
  readonly meter: string;
  readonly url: string;
  readonly headerName: string;
}

export const NEW: Draft = {
  slug: "",
  meter: "",
  interval: "1d",
  groups: [],
  url: "",
  over: "",
  subjects: "",
  headerName: "",
  headerValue: "",
  revisions: "record",
  grace: "",
};

/** The fields that the form shows faults of. */
export const SYNC_FIELDS = [
  "slug",
  "meter_id_or_key",
  "schedule.interval",
  "query",
  "endpoint.url",
  "endpoint.headers",
  "filter.usage",
  "filter.subject",
  "revisions",
  "grace_seconds",
];

/** What decides which bodies are made. */
export function definitionOf(draft: Draft) {
  const filter = filterOf(draft.over, draft.subjects);
  return {
    slug: draft.slug,
    meter_id_or_key: draft.meter,
    ...(draft.groups.length === 0 ? {} : { query: { group_by_dimensions: [...draft.groups] } }),
    ...(Object.keys(filter).length === 0 ? {} : { filter }),
  };
}

/** The body that creates the sync. */
export function requestOf(draft: Draft): Schemas["ReportRequest"] {
  const headers =
    draft.headerName === "" ? {} : { headers: { [draft.headerName]: draft.headerValue } };
  return {
    ...definitionOf(draft),
    type: "webhook",
    schedule: { interval: draft.interval },
    endpoint: { url: draft.url, ...headers },
    revisions: draft.revisions,
    ...(draft.grace === "" ? {} : { grace_seconds: Number(draft.grace) }),
  };
}

/** The fields of a new sync. */
export function SyncFields({
  draft,
  set,
  faults,
  meters,
  dimensions,
}: {
  draft: Draft;
  set: (changed: Draft) => void;
  faults: Faults;
  meters: readonly string[];
  dimensions: readonly string[];
}) {
  const put = (part: Partial<Draft>) => set({ ...draft, ...part });
  return (
    <>
      <Field
        label="Name"
        value={draft.slug}
        set={(slug) => put({ slug })}
        hint="In addresses and in each body, such as tokens-daily. It never changes."
        error={faultAt(faults, "slug")}
        needed
        code
      />
      <Field
        label="Meter"
        value={draft.meter}
        set={(meter) => put({ meter, groups: [] })}
        hint="The key of the meter whose usage is sent."
        error={faultAt(faults, "meter_id_or_key")}
        options={meters}
        needed
        code
      />
      <Every of={draft} put={put} error={faultAt(faults, "schedule.interval")} />
      <Groups of={draft} put={put} faults={faults} dimensions={dimensions} />
      <Field
        label="Address of the receiver"
        type="url"
        value={draft.url}
        set={(url) => put({ url })}
        hint="Deliveries are sent there by POST, and signed."
        error={faultAt(faults, "endpoint.url")}
        needed
        code
      />
      <details>
        <summary>Filter, headers and late usage</summary>
        <div>
          <Only of={draft} put={put} faults={faults} />
          <Field
            label="Name of a header"
            value={draft.headerName}
            set={(headerName) => put({ headerName })}
            hint="Sent with each delivery, such as X-Api-Key."
            error={faultAt(faults, "endpoint.headers")}
            code
          />
          {draft.headerName !== "" && <HeaderValue of={draft} put={put} />}
          <Late of={draft} put={put} faults={faults} />
        </div>
      </details>
    </>
  );
}
