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

/** By how much clocks are set: by half an hour on Lord Howe Island, by an hour elsewhere. */
const SET_BACK_MS = [3_600_000, 1_800_000];

/** An instant as people of one zone write it: `2026-01-31 09:15`. The zone stands in the head of the page. */
export function written(instant: string, zone: string, to: Exactness = "second"): string {
  const date = new Date(instant);
  if (Number.isNaN(date.getTime())) return instant;
  const local = localOf(date, zone);
  if (to === "day") return local.slice(0, 10);
  return local.slice(0, to === "minute" ? 16 : 19) + offsetOfTwo(date, zone, local);
}

function localOf(instant: Date, zone: string): string {
  const { year, month, day, hour, minute, second } = parts(instant, zone);
  return `${year}-${month}-${day} ${hour}:${minute}:${second}`;
}

/** What tells two instants apart that a clock shows alike, as it does after it was set back. */
function offsetOfTwo(instant: Date, zone: string, local: string): string {
  if (zone === "UTC") return "";
  const alike = SET_BACK_MS.some((ms) =>
    [ms, -ms].some((away) => localOf(new Date(instant.getTime() + away), zone) === local),
  );
  if (!alike) return "";
  const seconds = Math.floor(instant.getTime() / 1000);
  const minutes = (Date.parse(`${local.replace(" ", "T")}Z`) / 1000 - seconds) / 60;
  const [hour, minute] = [Math.floor(Math.abs(minutes) / 60), Math.abs(minutes) % 60];
  const two = (count: number) => String(count).padStart(2, "0");
  return ` ${minutes < 0 ? "-" : "+"}${two(hour)}:${two(minute)}`;
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
