/** Lengths of the windows of syncs; they lie on whole minutes, hours and days of UTC. */
export const INTERVALS = { "1m": 60_000, "1h": 3_600_000, "1d": 86_400_000 } as const;
export type Interval = keyof typeof INTERVALS;

export function isInterval(text: string): text is Interval {
  return Object.hasOwn(INTERVALS, text);
}

export interface Window {
  readonly from: string;
  readonly to: string;
}

/** The last windows that are over, the newest first; the first of them has the newest usage, if it can. */
export function windowsUntil(
  newest: string,
  interval: Interval,
  nowMs: number,
  count: number,
): Window[] {
  const length = INTERVALS[interval];
  const over = Math.floor(nowMs / length) * length;
  const holding = Math.floor(Date.parse(newest) / length) * length + length;
  const end = Math.min(over, holding);
  return Array.from({ length: count }, (_, place) => ({
    from: new Date(end - (place + 1) * length).toISOString(),
    to: new Date(end - place * length).toISOString(),
  }));
}
