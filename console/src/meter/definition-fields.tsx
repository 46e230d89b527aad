import { useRef } from "react";

import { Field, Select } from "../forms/fields.js";
import { faultAt, type Faults } from "../forms/faults.js";
import { AGGREGATIONS, repeated, type Definition, type DraftDimension } from "../rules/draft.js";

/** The fields that these show faults of, as the API names them. */
export const DEFINITION_FIELDS = ["aggregation", "event_type", "value_property", "dimensions"];

let made = 0;

/** A dimension of a form, with a place of its own. */
export function dimension(name = "", path = ""): DraftDimension {
  made += 1;
  return { id: made, name, path };
}

/** What is measured of which events: type, aggregation, value and dimensions. */
export function DefinitionFields({
  of,
  set,
  faults,
  types,
  paths,
  fixed = false,
}: {
  of: Definition;
  set: (changed: Definition) => void;
  faults: Faults;
  types: readonly string[];
  paths: readonly string[];
  /** The aggregation of a meter never changes. */
  fixed?: boolean;
}) {
  return (
    <>
      <Field
        label="Type of the events"
        value={of.eventType}
        set={(eventType) => set({ ...of, eventType })}
        hint="Events with this type are measured."
        error={faultAt(faults, "event_type")}
        options={types}
        needed
        code
      />
      {!fixed && (
        <Select
          label="What is computed"
          value={of.aggregation}
          set={(name) => set({ ...of, aggregation: name as Definition["aggregation"] })}
          options={AGGREGATIONS}
          error={faultAt(faults, "aggregation")}
        />
      )}
      {of.aggregation !== "count" && (
        <Field
          label="Path to the value"
          value={of.value}
          set={(value) => set({ ...of, value })}
          hint={
            <>
              A JSON path into the event's data, such as <code>$.tokens</code>.
            </>
          }
          error={faultAt(faults, "value_property")}
          options={paths}
          needed
          code
        />
      )}
      <Dimensions of={of} set={set} faults={faults} paths={paths} />
    </>
  );
}

function Dimensions({
  of,
  set,
  faults,
  paths,
}: {
  of: Definition;
  set: (changed: Definition) => void;
  faults: Faults;
  paths: readonly string[];
}) {
  const add = useRef<HTMLButtonElement>(null);
  const newest = useRef<number>(undefined);
  const twice = repeated(of.dimensions);
  const change = (id: number, part: Partial<DraftDimension>) =>
    set({ ...of, dimensions: of.dimensions.map((it) => (it.id === id ? { ...it, ...part } : it)) });
  const remove = (id: number) => {
    set({ ...of, dimensions: of.dimensions.filter((it) => it.id !== id) });
    add.current?.focus();
  };
  return (
    <fieldset className="part">
      <legend>Dimensions</legend>
      <span className="hint">Usage can be split by these. The subject is always one of them.</span>
      {of.dimensions.map((one) => {
        const error = faultAt(faults, `dimensions.${one.name}`);
        return (
          <div className="pair" key={one.id}>
            <Field
              label="Name"
              value={one.name}
              set={(name) => change(one.id, { name })}
              error={twice.has(one.name) ? "Another one has this name." : undefined}
              autoFocus={newest.current === one.id}
              needed
            />
            <Field
              label="Path"
              value={one.path}
              set={(path) => change(one.id, { path })}
              error={error}
              options={paths}
              needed
              code
            />
            <button
              type="button"
              className="button"
              aria-label={`Remove dimension ${one.name}`}
              onClick={() => remove(one.id)}
            >
              ✕
            </button>
          </div>
        );
      })}
      {faults.get("dimensions") && <span className="fault">{faults.get("dimensions")}</span>}
      <button
        ref={add}
        type="button"
        className="button small"
        onClick={() => {
          const one = dimension();
          newest.current = one.id;
          set({ ...of, dimensions: [...of.dimensions, one] });
        }}
      >
        Add a dimension
      </button>
    </fieldset>
  );
}
