/** What an answer says of single fields: the field's path and the reason as a sentence. */
export type Faults = ReadonlyMap<string, string>;

interface Parameter {
  readonly field: string;
  readonly reason: string;
}

/** Faults by field; what lies below `prefix` is named from there on. */
export function byField(parameters: readonly Parameter[], prefix = ""): Faults {
  const found = new Map<string, string>();
  for (const { field, reason } of parameters) {
    const name = field.startsWith(prefix) ? field.slice(prefix.length) : field;
    const before = found.get(name);
    found.set(name, before === undefined ? sentence(reason) : `${before} ${sentence(reason)}`);
  }
  return found;
}

/** The first reason that is told of a field or of a part of it: `headers` has those of `headers.A`. */
export function faultAt(faults: Faults, field: string): string | undefined {
  const own = faults.get(field);
  if (own !== undefined) return own;
  return [...faults].find(([name]) => name.startsWith(`${field}.`))?.[1];
}

/** The faults that no field of a form shows. */
export function unplaced(faults: Faults, fields: readonly string[]): Faults {
  const shown = (name: string) =>
    fields.some((field) => name === field || name.startsWith(`${field}.`));
  return new Map([...faults].filter(([name]) => !shown(name)));
}

/** Faults of two answers; those of the first come first. */
export function together(one: Faults, other: Faults): Faults {
  return new Map([...other, ...one]);
}

function sentence(reason: string): string {
  const text = reason.charAt(0).toUpperCase() + reason.slice(1);
  return /[.!?]$/.test(text) ? text : `${text}.`;
}
