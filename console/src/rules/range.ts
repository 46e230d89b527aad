import {
  parseAbsolute,
  toCalendarDateTime,
  toZoned,
  type ZonedDateTime,
} from "@internationalized/date";

export const GRANULARITIES = ["PT1M", "PT1H", "P1D", "P1M"] as const;
export type Granularity = (typeof GRANULARITIES)[number];

export interface Range {
  readonly from: string;
  readonly to: string;
}

/** Spans that end at the newest usage. The name is what stands in the URL. */
export const SPANS = {
  "3h": { words: "3 hours", ms: 3 * 3_600_000, granularity: "PT1M" },
  "24h": { words: "24 hours", ms: 24 * 3_600_000, granularity: "PT1H" },
  "7d": { words: "7 days", ms: 7 * 86_400_000, granularity: "PT1H" },
  "30d": { words: "30 days", ms: 30 * 86_400_000, granularity: "P1D" },
  "12mo": { words: "12 months", ms: 365 * 86_400_000, granularity: "P1M" },
} as const satisfies Record<string, { words: string; ms: number; granularity: Granularity }>;
export type Span = keyof typeof SPANS;

export function isSpan(text: string): text is Span {
  return Object.hasOwn(SPANS, text);
}

/** More windows than this are neither drawn nor asked for at once; the limit is for the eye. */
export const WINDOWS_MAX = 2000;

function floor(at: ZonedDateTime, granularity: Granularity): ZonedDateTime {
  const local = toCalendarDateTime(at);
  // Minutes and hours are steps of real time: a clock set back has the same hour twice.
  const minute = at.subtract({ seconds: local.second, milliseconds: local.millisecond });
  if (granularity === "PT1M") return minute;
  if (granularity === "PT1H") return minute.subtract({ minutes: local.minute });
  const day = local.set({ hour: 0, minute: 0, second: 0, millisecond: 0 });
  return toZoned(granularity === "P1D" ? day : day.set({ day: 1 }), at.timeZone);
}

function next(at: ZonedDateTime, granularity: Granularity): ZonedDateTime {
  if (granularity === "PT1M") return at.add({ minutes: 1 });
  // Up to the next full hour: where a clock is set by half an hour, one window is as long.
  if (granularity === "PT1H") return at.add({ minutes: 60 - at.minute });
  return floor(at.add(granularity === "P1D" ? { days: 1 } : { months: 1 }), granularity);
}

/** The range widened to whole windows of a zone. */
export function aligned(range: Range, granularity: Granularity, zone: string): Range {
  const from = floor(parseAbsolute(range.from, zone), granularity);
  const last = floor(parseAbsolute(range.to, zone), granularity);
  const whole = last.toDate().getTime() === new Date(range.to).getTime();
  const to = whole ? last : next(last, granularity);
  return { from: from.toAbsoluteString(), to: to.toAbsoluteString() };
}

/** Starts of all windows of a range, in ms: those without usage have no row, but have a place. */
export function windowStarts(range: Range, granularity: Granularity, zone: string): number[] {
  const endMs = new Date(range.to).getTime();
  const starts: number[] = [];
  let at = floor(parseAbsolute(range.from, zone), granularity);
  while (at.toDate().getTime() < endMs && starts.length < WINDOWS_MAX) {
    starts.push(at.toDate().getTime());
    at = next(at, granularity);
  }
  return starts;
}

/** As many windows of a zone right before: months are of different length, and so are some days. */
export function before(range: Range, granularity: Granularity, zone: string): Range {
  const count = windowStarts(range, granularity, zone).length;
  const lengths = {
    PT1M: { minutes: count },
    PT1H: { hours: count },
    P1D: { days: count },
    P1M: { months: count },
  };
  const from = parseAbsolute(range.from, zone).subtract(lengths[granularity]);
  return { from: floor(from, granularity).toAbsoluteString(), to: range.from };
}

const STEP_MS: Record<Granularity, number> = {
  PT1M: 60_000,
  PT1H: 3_600_000,
  P1D: 86_400_000,
  P1M: 28 * 86_400_000,
};

/** The granularities that cut a range into a number of windows that can be drawn. */
export function fitting(range: Range): Granularity[] {
  const ms = new Date(range.to).getTime() - new Date(range.from).getTime();
  return GRANULARITIES.filter((one) => ms / STEP_MS[one] <= WINDOWS_MAX);
}

/** The size of the cells that a value is made of: the coarsest that cut its window into several parts. */
export function cellsOf(range: Range): Granularity {
  const ms = new Date(range.to).getTime() - new Date(range.from).getTime();
  for (const one of ["P1D", "PT1H"] as const) {
    const whole = aligned(range, one, "UTC");
    const fits = new Date(whole.from).getTime() === new Date(range.from).getTime();
    const ends = new Date(whole.to).getTime() === new Date(range.to).getTime();
    if (fits && ends && ms >= 2 * STEP_MS[one]) return one;
  }
  return "PT1M";
}

export const GRANULARITY_WORDS: Record<Granularity, string> = {
  PT1M: "minute",
  PT1H: "hour",
  P1D: "day",
  P1M: "month",
};
