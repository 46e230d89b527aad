import { useEffect, useId, type ReactNode, type RefObject } from "react";
import { FieldError, Input, Label, Text, TextArea, TextField } from "react-aria-components";

import { Failure } from "../parts/basics.js";
import { useMay } from "../state.js";
import { unplaced, type Faults } from "./faults.js";
import "../styles/forms.css";

interface Entry {
  readonly label: string;
  readonly value: string;
  readonly set: (value: string) => void;
  readonly hint?: ReactNode;
  readonly error?: string | undefined;
}

interface Line extends Entry {
  readonly type?: "text" | "url" | "number" | "password" | "datetime-local";
  readonly needed?: boolean;
  readonly code?: boolean;
  readonly rows?: number;
  readonly options?: readonly string[];
  readonly autoFocus?: boolean;
}

/** A field of a form. What is wrong with it stands below it and is read out with it. */
export function Field({ label, value, set, hint, error, ...more }: Line) {
  const { type = "text", needed = false, code = false, rows, options, autoFocus = false } = more;
  const list = useId();
  const className = code ? "code-input" : undefined;
  return (
    <TextField
      className="field"
      value={value}
      onChange={set}
      type={type === "datetime-local" ? "text" : type}
      isRequired={needed}
      isInvalid={error !== undefined}
      validationBehavior="aria"
      autoFocus={autoFocus}
      spellCheck="false"
      autoComplete="off"
    >
      <Label>
        {label}
        {!needed && <span className="optional"> optional</span>}
      </Label>
      {rows === undefined ? (
        <Input
          {...(className ? { className } : {})}
          {...(options ? { list } : {})}
          {...(type === "datetime-local" ? { type } : {})}
        />
      ) : (
        <TextArea rows={rows} {...(className ? { className } : {})} />
      )}
      {options && (
        <datalist id={list}>
          {options.map((one) => (
            <option key={one} value={one} />
          ))}
        </datalist>
      )}
      {hint && (
        <Text slot="description" className="hint">
          {hint}
        </Text>
      )}
      <FieldError className="fault">{error}</FieldError>
    </TextField>
  );
}

/** A choice of a few. */
export function Select({
  label,
  value,
  set,
  hint,
  error,
  options,
}: Entry & { readonly options: readonly (readonly [value: string, words: string])[] }) {
  const id = useId();
  return (
    <div className="field">
      <label htmlFor={id}>{label}</label>
      <select
        id={id}
        value={value}
        onChange={(event) => set(event.target.value)}
        aria-invalid={error !== undefined}
        aria-describedby={`${id}-more`}
      >
        {options.map(([one, words]) => (
          <option key={one} value={one}>
            {words}
          </option>
        ))}
      </select>
      <span id={`${id}-more`}>
        {hint && <span className="hint">{hint}</span>}
        {error && <span className="fault">{error}</span>}
      </span>
    </div>
  );
}

/** Any of several, each a box to check. */
export function Boxes({
  label,
  chosen,
  set,
  options,
  hint,
  error,
}: {
  label: string;
  chosen: readonly string[];
  set: (chosen: readonly string[]) => void;
  options: readonly (readonly [value: string, words?: string])[];
  hint?: ReactNode;
  error?: string | undefined;
}) {
  const id = useId();
  return (
    <fieldset className="boxes" aria-describedby={id}>
      <legend>{label}</legend>
      <span id={id}>
        {hint && <span className="hint">{hint}</span>}
        {error && <span className="fault">{error}</span>}
      </span>
      <div className="boxes-grid">
        {options.map(([one, words]) => (
          <label key={one} className="box">
            <input
              type="checkbox"
              checked={chosen.includes(one)}
              aria-invalid={error !== undefined}
              onChange={(event) =>
                set(
                  event.target.checked ? [...chosen, one] : chosen.filter((other) => other !== one),
                )
              }
            />
            <span>
              {one}
              {words && <span className="hint">{words}</span>}
            </span>
          </label>
        ))}
      </div>
    </fieldset>
  );
}

/** What went wrong that no field of the form shows. */
export function Rest({
  error,
  faults,
  fields,
}: {
  error: unknown;
  faults: Faults;
  fields: readonly string[];
}) {
  if (error == null) return null;
  const rest = unplaced(faults, fields);
  if (faults.size > 0 && rest.size === 0)
    return (
      <p className="fault" role="alert">
        Not done yet: change the fields that say what is wrong.
      </p>
    );
  return <Failure error={error} />;
}

/** After a refused form the first field that is wrong has the focus. */
export function useFocusOnFault(form: RefObject<HTMLElement | null>, error: unknown): void {
  useEffect(() => {
    if (error == null) return;
    form.current?.querySelector<HTMLElement>('[aria-invalid="true"]')?.focus();
  }, [form, error]);
}

/** What a page shows to a key that lacks the scope for it. */
export function Needs({ scope, children }: { scope: string; children: ReactNode }) {
  const may = useMay();
  if (may(scope)) return children;
  return (
    <div className="notice warn">
      <p>
        <strong>This key cannot do that.</strong> It needs the scope <code>{scope}</code>. Ask for a
        key that has it, and sign in with it.
      </p>
    </div>
  );
}
