const FORMS = new Map<string, Intl.DateTimeFormat>();

function parts(instant: Date, zone: string): Record<string, string> {
  let form = FORMS.get(zone);
  if (form === undefined) {
    form = new Intl.DateTimeFormat("en-GB", {
      timeZone: zone,
      year: "numeric",
      month: "2-digit",
      day: "2-digit",
      hour: "2-digit",
      minute: "2-digit",
      second: "2-digit",
      hourCycle: "h23",
    });
    FORMS.set(zone, form);
  }
  return Object.fromEntries(form.formatToParts(instant).map((part) => [part.type, part.value]));
}

/** Whether a name is that of a time zone. */
export function isZone(name: string): boolean {
  try {
    parts(new Date(0), name);
    return name !== "";
  } catch {
    return false; // the browser knows none of that name
  }
}

export type Exactness = "day" | "minute" | "second";

/** An instant as people of one zone write it: `2026-01-31 09:15`. The zone stands in the head of the page. */
export function written(instant: string, zone: string, to: Exactness = "second"): string {
  const date = new Date(instant);
  if (Number.isNaN(date.getTime())) return instant;
  const { year, month, day, hour, minute, second } = parts(date, zone);
  const whole = `${year}-${month}-${day}`;
  if (to === "day") return whole;
  return to === "minute" ? `${whole} ${hour}:${minute}` : `${whole} ${hour}:${minute}:${second}`;
}

const UNITS = [
  [86_400_000, "day"],
  [3_600_000, "hour"],
  [60_000, "minute"],
  [1000, "second"],
] as const;

/** A duration in its largest unit, in words: `3 minutes`. */
export function lasting(ms: number): string {
  for (const [size, name] of UNITS) {
    const count = Math.floor(Math.abs(ms) / size);
    if (count > 0) return `${count} ${name}${count === 1 ? "" : "s"}`;
  }
  return "less than a second";
}

/** How far an instant is from now, in words: `3 minutes ago`, `in 2 hours`. */
export function away(instant: string, nowMs: number): string {
  const ms = new Date(instant).getTime() - nowMs;
  if (Math.abs(ms) < 1000) return "now";
  return ms < 0 ? `${lasting(ms)} ago` : `in ${lasting(ms)}`;
}

const INSTANT = /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z/g;

/** A text of the server with its instants written in a zone. */
export function retimed(text: string, zone: string): string {
  return text.replace(INSTANT, (instant) => written(instant, zone));
}
