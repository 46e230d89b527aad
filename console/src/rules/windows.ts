/** Lengths of the windows of syncs. */
export const INTERVALS = { "1m": 60_000, "1h": 3_600_000, "1d": 86_400_000 } as const;
export type Interval = keyof typeof INTERVALS;

export function isInterval(text: string): text is Interval {
  return Object.hasOwn(INTERVALS, text);
}

export interface Window {
  readonly from: string;
  readonly to: string;
}

/** The last windows that are over, the newest first; the first of them has the newest usage, if it can.
 * They are counted from an instant; without one they lie on whole minutes, hours and days of UTC.
 */
export function windowsUntil(
  newest: string,
  interval: Interval,
  nowMs: number,
  count: number,
  from = "1970-01-01T00:00:00Z",
): Window[] {
  const length = INTERVALS[interval];
  const first = Date.parse(from) % length;
  const startOf = (ms: number) => Math.floor((ms - first) / length) * length + first;
  const end = Math.min(startOf(nowMs), startOf(Date.parse(newest)) + length);
  return Array.from({ length: count }, (_, place) => ({
    from: new Date(end - (place + 1) * length).toISOString(),
    to: new Date(end - place * length).toISOString(),
  }));
}
