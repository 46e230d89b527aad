import type { ReactNode } from "react";

import { setParams } from "../state.js";

/** A number that can be asked for: of which meter, which window, whose, with which dimensions. */
export interface Question {
  readonly meter: string;
  readonly from: string;
  readonly to: string;
  readonly subject?: string | undefined;
  readonly dimensions?: Readonly<Record<string, string>> | undefined;
  readonly value?: string | undefined;
}

/** The question as one parameter of the URL, so that the answer can be sent to a colleague. */
export function asText(question: Question): string {
  return JSON.stringify(question);
}

export function fromText(text: string): Question | undefined {
  try {
    const found = JSON.parse(text) as Question;
    const [from, to] = [new Date(found.from).toISOString(), new Date(found.to).toISOString()];
    return typeof found.meter === "string" ? { ...found, from, to } : undefined;
  } catch {
    return undefined;
  }
}

/** A row's dimensions apart from its subject; `only` are those that the rows were narrowed to. */
export function questionOf(
  meter: string,
  row: { from: string; to: string; dimensions: Record<string, string>; value: string },
  subject?: string,
  only: Readonly<Record<string, string>> = {},
): Question {
  const { subject: own, ...dimensions } = row.dimensions;
  return {
    meter,
    from: row.from,
    to: row.to,
    subject: own ?? subject,
    dimensions: { ...only, ...dimensions },
    value: row.value,
  };
}

export function Why({ question, children }: { question: Question; children: ReactNode }) {
  return (
    <button
      type="button"
      className="why"
      title="Why this number?"
      onClick={() => setParams({ why: asText(question), why_after: "" })}
    >
      {children}
      <span className="why-mark">why?</span>
    </button>
  );
}
