import { Boxes, Field, Select } from "../forms/fields.js";
import { faultAt, type Faults } from "../forms/faults.js";
import type { Schemas } from "../api.js";
import { filterOf, LATE } from "../rules/sync-change.js";
import { isInterval, type Interval } from "../rules/windows.js";

export interface Draft {
  readonly slug: string;
  readonly meter: string;
  readonly interval: Interval;
  readonly groups: readonly string[];
  readonly url: string;
  readonly over: string;
  readonly subjects: string;
  readonly headerName: string;
  readonly headerValue: string;
  readonly revisions: "record" | "send";
  readonly grace: string;
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

export const EVERY_OPTIONS = [
  ["1d", "every day of UTC"],
  ["1h", "every hour"],
  ["1m", "every minute"],
] as const;
export const LATE_OPTIONS = Object.entries(LATE);

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
      <Select
        label="Sends"
        value={draft.interval}
        set={(interval) => isInterval(interval) && put({ interval })}
        options={EVERY_OPTIONS}
        error={faultAt(faults, "schedule.interval")}
      />
      {dimensions.length > 0 && (
        <Boxes
          label="One entry for each"
          chosen={draft.groups}
          set={(groups) => put({ groups })}
          options={dimensions.map((name) => [name] as const)}
          hint="Each subject has its own delivery in any case."
          error={faultAt(faults, "query")}
        />
      )}
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
          <Field
            label="Only entries with more than"
            value={draft.over}
            set={(over) => put({ over })}
            error={faultAt(faults, "filter.usage")}
          />
          <Field
            label="Only these subjects, one a line"
            value={draft.subjects}
            set={(subjects) => put({ subjects })}
            error={faultAt(faults, "filter.subject")}
            rows={2}
          />
          <Field
            label="Name of a header"
            value={draft.headerName}
            set={(headerName) => put({ headerName })}
            hint="Sent with each delivery, such as X-Api-Key."
            error={faultAt(faults, "endpoint.headers")}
            code
          />
          {draft.headerName !== "" && (
            <Field
              label="Value of the header"
              type="password"
              value={draft.headerValue}
              set={(headerValue) => put({ headerValue })}
              hint="It is stored sealed, and never shown."
              needed
            />
          )}
          <Select
            label="When usage comes late"
            value={draft.revisions}
            set={(one) => put({ revisions: one === "send" ? "send" : "record" })}
            options={LATE_OPTIONS}
            error={faultAt(faults, "revisions")}
          />
          <Field
            label="Wait for late events, in seconds"
            type="number"
            value={draft.grace}
            set={(grace) => put({ grace })}
            hint="After each window. Empty: as the installation is set."
            error={faultAt(faults, "grace_seconds")}
          />
        </div>
      </details>
    </>
  );
}
