import { Boxes, Field, Select } from "../forms/fields.js";
import { faultAt, type Faults } from "../forms/faults.js";
import { LATE } from "../rules/sync-change.js";
import { isInterval, type Interval } from "../rules/windows.js";

/** What a form says of a sync, whether it is new or changed. */
export interface Said {
  readonly interval: Interval;
  readonly groups: readonly string[];
  readonly over: string;
  readonly subjects: string;
  readonly headerValue: string;
  readonly revisions: "record" | "send";
  readonly grace: string;
}

interface Rows {
  readonly of: Said;
  readonly put: (part: Partial<Said>) => void;
  readonly faults: Faults;
}

export function Every({ of, put, error }: Omit<Rows, "faults"> & { error: string | undefined }) {
  return (
    <Select
      label="Sends"
      value={of.interval}
      set={(interval) => isInterval(interval) && put({ interval })}
      options={[
        ["1d", "every day of UTC"],
        ["1h", "every hour"],
        ["1m", "every minute"],
      ]}
      error={error}
    />
  );
}

export function Groups({ of, put, faults, dimensions }: Rows & { dimensions: readonly string[] }) {
  if (dimensions.length === 0) return null;
  return (
    <Boxes
      label="One entry for each"
      chosen={of.groups}
      set={(groups) => put({ groups })}
      options={dimensions.map((name) => [name] as const)}
      hint="Each subject has its own delivery in any case."
      error={faultAt(faults, "query")}
    />
  );
}

/** Which entries are sent. */
export function Only({ of, put, faults }: Rows) {
  return (
    <>
      <Field
        label="Only entries with more than"
        value={of.over}
        set={(over) => put({ over })}
        error={faultAt(faults, "filter.usage")}
      />
      <Field
        label="Only these subjects, one a line"
        value={of.subjects}
        set={(subjects) => put({ subjects })}
        error={faultAt(faults, "filter.subject")}
        rows={2}
      />
    </>
  );
}

export function HeaderValue({ of, put }: Omit<Rows, "faults">) {
  return (
    <Field
      label="Value of the header"
      type="password"
      value={of.headerValue}
      set={(headerValue) => put({ headerValue })}
      hint="It is stored sealed, and never shown."
      needed
    />
  );
}

export function Late({ of, put, faults }: Rows) {
  return (
    <>
      <Select
        label="When usage comes late"
        value={of.revisions}
        set={(one) => put({ revisions: one === "send" ? "send" : "record" })}
        options={Object.entries(LATE)}
        error={faultAt(faults, "revisions")}
      />
      <Field
        label="Wait for late events, in seconds"
        type="number"
        value={of.grace}
        set={(grace) => put({ grace })}
        hint="After each window. Empty: as the installation is set."
        error={faultAt(faults, "grace_seconds")}
      />
    </>
  );
}
