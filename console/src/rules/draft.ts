export type Aggregation = "sum" | "count" | "avg" | "min" | "max" | "unique_count" | "latest";

/** A dimension as it stands in a form; `id` keeps its place while it is written. */
export interface DraftDimension {
  readonly id: number;
  readonly name: string;
  readonly path: string;
}

/** What a meter measures, as it stands in a form. */
export interface Definition {
  readonly aggregation: Aggregation;
  readonly eventType: string;
  readonly value: string;
  readonly dimensions: readonly DraftDimension[];
}

export const AGGREGATIONS: readonly (readonly [Aggregation, string])[] = [
  ["sum", "sum: add the values up"],
  ["count", "count: number of events"],
  ["unique_count", "unique count: number of different values"],
  ["avg", "average of the values"],
  ["min", "smallest value"],
  ["max", "largest value"],
  ["latest", "latest value"],
];

/** The members of a definition as the API takes them. Dimensions without name and path are left out. */
export function measured(of: Definition) {
  const dimensions = Object.fromEntries(
    of.dimensions
      .filter((one) => one.name !== "" || one.path !== "")
      .map((one) => [one.name, one.path]),
  );
  return {
    aggregation: of.aggregation,
    event_type: of.eventType,
    ...(of.aggregation === "count" || of.value === "" ? {} : { value_property: of.value }),
    dimensions,
  };
}

/** Whether enough is written that a preview says something. */
export function previewable(of: Definition): boolean {
  return of.eventType !== "" && (of.aggregation === "count" || of.value !== "");
}

/** Names that two dimensions share: an object of the API would silently keep one of them. */
export function repeated(dimensions: readonly DraftDimension[]): ReadonlySet<string> {
  const names = dimensions.map((one) => one.name).filter((name) => name !== "");
  return new Set(names.filter((name, place) => names.indexOf(name) !== place));
}

const PATHS_MAX = 40;

/** Paths that lead to a single value in an event's data: what a value or a dimension can be. */
export function pathsIn(data: unknown, root = "$", depth = 0): string[] {
  if (typeof data !== "object" || data === null || Array.isArray(data) || depth > 4) return [];
  const found: string[] = [];
  for (const [name, value] of Object.entries(data)) {
    const path = /^[A-Za-z_][A-Za-z0-9_]*$/.test(name)
      ? `${root}.${name}`
      : `${root}[${JSON.stringify(name)}]`;
    if (typeof value === "object" && value !== null) found.push(...pathsIn(value, path, depth + 1));
    else found.push(path);
  }
  return found.slice(0, PATHS_MAX);
}
