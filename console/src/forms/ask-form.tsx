import type { UseMutationResult } from "@tanstack/react-query";
import { useRef, type ReactNode } from "react";

import type { Faults } from "./faults.js";
import { Rest, useFocusOnFault } from "./fields.js";

interface Asking {
  /** The request that the form carries out. */
  readonly ask: UseMutationResult<unknown, Error, void>;
  /** The words on its button. */
  readonly submit: string;
  /** What the request was refused for, by field. */
  readonly refused: Faults;
  /** The names of the fields that show faults of their own. */
  readonly fields: readonly string[];
  /** What went wrong, where it is not all that the request says. */
  readonly error?: unknown;
  readonly className?: string;
  /** What stands below the button. */
  readonly hint?: string;
  readonly children: ReactNode;
}

/** A form that one request carries out. What was refused is forgotten with the first change. */
export function AskForm({
  ask,
  submit,
  refused,
  fields,
  error = ask.error,
  className = "form",
  hint,
  children,
}: Asking) {
  const form = useRef<HTMLFormElement>(null);
  useFocusOnFault(form, ask.error);
  return (
    <form
      ref={form}
      className={className}
      noValidate
      onChange={() => ask.isError && ask.reset()}
      onSubmit={(event) => {
        event.preventDefault();
        ask.mutate();
      }}
    >
      {children}
      <Rest error={error} faults={refused} fields={fields} />
      <div className="row">
        <button type="submit" className="button main" disabled={ask.isPending}>
          {submit}
        </button>
      </div>
      {hint && <p className="hint">{hint}</p>}
    </form>
  );
}
