import { Field, Select } from "../forms/fields.js";
import { faultAt, type Faults } from "../forms/faults.js";
import { filterText, headersText, type Edit, type Fate, type Shown } from "../rules/sync-change.js";
import { Every, Groups, HeaderValue, Late, Only } from "./fields.js";

function fate(text: string): Fate {
  return text === "set" || text === "none" ? text : "keep";
}

interface Fields {
  readonly of: Edit;
  readonly set: (changed: Edit) => void;
  readonly sync: Shown;
  readonly faults: Faults;
}

/** The fields of a sync that may change. */
export function EditFields({ dimensions, ...fields }: Fields & { dimensions: readonly string[] }) {
  const { of, set, faults } = fields;
  const put = (part: Partial<Edit>) => set({ ...of, ...part });
  return (
    <>
      <Every
        of={of}
        put={put}
        error={faultAt(faults, "schedule.interval") ?? faults.get("schedule")}
      />
      <Field
        label="Windows are counted from"
        value={of.start}
        set={(start) => put({ start })}
        hint="An instant, such as 2026-01-01T00:00:00Z. It moves the borders of all windows."
        error={faultAt(faults, "schedule.start_at")}
        needed
        code
      />
      <Groups of={of} put={put} faults={faults} dimensions={dimensions} />
      <Filter {...fields} />
      <Endpoint {...fields} />
      <Late of={of} put={put} faults={faults} />
    </>
  );
}

function Filter({ of, set, sync, faults }: Fields) {
  const put = (part: Partial<Edit>) => set({ ...of, ...part });
  return (
    <>
      <Select
        label="Filter"
        value={of.filter}
        set={(text) => put({ filter: fate(text) })}
        options={[
          ["keep", `as it is: ${filterText(sync.filter)}`],
          ["set", "another filter"],
          ...(sync.filter === undefined ? [] : [["none", "no filter: every entry"] as const]),
        ]}
      />
      {of.filter === "set" && <Only of={of} put={put} faults={faults} />}
    </>
  );
}

function Endpoint({ of, set, sync, faults }: Fields) {
  const put = (part: Partial<Edit>) => set({ ...of, ...part });
  const names = sync.endpoint.header_names;
  return (
    <>
      <Field
        label="Address of the receiver"
        type="url"
        value={of.url}
        set={(url) => put({ url })}
        hint="What is owed goes there, too. A user and a password are kept while the address is the same."
        error={faultAt(faults, "endpoint.url")}
        needed
        code
      />
      <Select
        label="Headers"
        value={of.headers}
        set={(text) => put({ headers: fate(text) })}
        options={[
          ["keep", `as they are: ${headersText(names)}`],
          ["set", "one header, written here"],
          ...(names === undefined ? [] : [["none", "no header"] as const]),
        ]}
        error={of.headers === "set" ? undefined : faultAt(faults, "endpoint.headers")}
      />
      {of.headers === "set" && (
        <>
          <Field
            label="Name of the header"
            value={of.headerName}
            set={(headerName) => put({ headerName })}
            hint="Sent with each delivery, such as X-Api-Key. It replaces those of before."
            error={faultAt(faults, "endpoint.headers")}
            needed
            code
          />
          <HeaderValue of={of} put={put} />
        </>
      )}
    </>
  );
}
