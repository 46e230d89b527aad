export interface Row {
  readonly value: string;
  readonly from: string;
  readonly dimensions: Readonly<Record<string, string>>;
}

export interface Series {
  readonly label: string;
  /** For the eye: a float has fewer digits than a value may have. */
  readonly values: readonly (number | null)[];
  /** The same, exact. */
  readonly texts: readonly (string | null)[];
}

/** So many lines can be told apart; the table has all. */
export const SERIES_MAX = 6;

/** A label of a group: the values of its dimensions, or what stands for all. */
export function groupLabel(dimensions: Readonly<Record<string, string>>): string {
  const values = Object.values(dimensions).map((value) => (value === "" ? "(empty)" : value));
  return values.length === 0 ? "all" : values.join(", ");
}

/** Rows as one line a group, at the starts of all windows, the groups with most first. A window
 * without usage is 0 where values are added up, and a gap where they are not. */
export function seriesOf(rows: readonly Row[], starts: readonly number[], adds: boolean): Series[] {
  const place = new Map(starts.map((start, index) => [start, index]));
  const groups = new Map<string, { values: (number | null)[]; texts: (string | null)[] }>();
  for (const row of rows) {
    const index = place.get(Date.parse(row.from));
    if (index === undefined) continue;
    const label = groupLabel(row.dimensions);
    const group = groups.get(label) ?? {
      values: starts.map(() => (adds ? 0 : null)),
      texts: starts.map(() => (adds ? "0" : null)),
    };
    group.values[index] = Number(row.value);
    group.texts[index] = row.value;
    groups.set(label, group);
  }
  const weight = (values: readonly (number | null)[]) =>
    values.reduce<number>((sum, value) => sum + Math.abs(value ?? 0), 0);
  return [...groups]
    .map(([label, group]) => ({ label, ...group, weight: weight(group.values) }))
    .sort((a, b) => b.weight - a.weight || (a.label < b.label ? -1 : 1))
    .slice(0, SERIES_MAX)
    .map(({ weight: _, ...one }) => one);
}
