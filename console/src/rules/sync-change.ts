import { isInterval, type Interval } from "./windows.js";

interface Schedule {
  readonly interval: string;
  readonly start_at: string;
}

/** What a sync is, as the API shows it. */
export interface Shown {
  readonly schedule: Schedule;
  readonly ending_schedule?: Schedule & { readonly ends_at: string };
  readonly query: { readonly group_by_dimensions: readonly string[] };
  readonly filter?: object;
  readonly endpoint: { readonly url: string; readonly header_names?: readonly string[] };
  readonly revisions: "record" | "send";
  readonly grace_seconds?: number;
}

/** What becomes of a part that is not shown whole, or that the form cannot write whole. */
export type Fate = "keep" | "set" | "none";

/** A sync as it stands in the form that changes it. */
export interface Edit {
  readonly interval: Interval;
  readonly start: string;
  readonly groups: readonly string[];
  readonly url: string;
  readonly filter: Fate;
  readonly over: string;
  readonly subjects: string;
  readonly headers: Fate;
  readonly headerName: string;
  readonly headerValue: string;
  readonly revisions: "record" | "send";
  readonly grace: string;
}

export function editOf(sync: Shown): Edit {
  const { interval, start_at } = sync.schedule;
  return {
    interval: isInterval(interval) ? interval : "1d",
    start: start_at,
    groups: sync.query.group_by_dimensions,
    url: sync.endpoint.url,
    filter: "keep",
    over: "",
    subjects: "",
    headers: "keep",
    headerName: "",
    headerValue: "",
    revisions: sync.revisions,
    grace: sync.grace_seconds === undefined ? "" : String(sync.grace_seconds),
  };
}

/** Texts, one a line. */
export function listed(text: string): string[] {
  return text
    .split("\n")
    .map((one) => one.trim())
    .filter((one) => one !== "");
}

/** A filter of a form as the API takes it; without conditions it lets everything pass. */
export function filterOf(over: string, subjects: string) {
  const only = listed(subjects);
  return {
    ...(over === "" ? {} : { usage: { $gt: over } }),
    ...(only.length === 0 ? {} : { subject: { $in: only } }),
  };
}

function same(one: readonly string[], other: readonly string[]): boolean {
  return one.length === other.length && one.every((name, place) => name === other[place]);
}

/** The body that makes a sync what the form says: the members that differ, and no other. */
export function changeOf(edit: Edit, sync: Shown) {
  const { schedule, query, endpoint } = sync;
  const timed = edit.interval !== schedule.interval || edit.start !== schedule.start_at;
  const sent = edit.url !== endpoint.url || edit.headers !== "keep";
  const headers = {
    keep: {},
    none: { headers: {} },
    set: { headers: { [edit.headerName]: edit.headerValue } },
  }[edit.headers];
  const filter = edit.filter === "none" ? {} : filterOf(edit.over, edit.subjects);
  const grace = edit.grace === "" ? undefined : Number(edit.grace);
  return {
    ...(timed ? { schedule: { interval: edit.interval, start_at: edit.start } } : {}),
    ...(same(edit.groups, query.group_by_dimensions)
      ? {}
      : { query: { group_by_dimensions: [...edit.groups] } }),
    ...(sent ? { endpoint: { url: edit.url, ...headers } } : {}),
    ...(edit.filter === "keep" ? {} : { filter }),
    ...(edit.revisions === sync.revisions ? {} : { revisions: edit.revisions }),
    ...(grace === sync.grace_seconds ? {} : { grace_seconds: grace ?? null }),
  };
}

/** One thing that a change does: from what, to what, and from when on. */
export interface Difference {
  readonly what: string;
  readonly before: string;
  readonly after: string;
  readonly when: string;
}

const EVERY: Record<string, string> = { "1d": "day", "1h": "hour", "1m": "minute" };
const RUNS = "Runs that are made from now on. What was sent stays as it is.";
const ATTEMPTS = "Each attempt from now on, also of deliveries that are owed.";
const NOT_THERE = "Headers are not sent to another address: write them anew.";
export const LATE = {
  record: "record corrections and show them",
  send: "send corrections too",
} as const;

export function scheduleText(of: Schedule): string {
  return `every ${EVERY[of.interval] ?? of.interval}, counted from ${of.start_at}`;
}

export function filterText(of: object | undefined): string {
  return of === undefined || Object.keys(of).length === 0 ? "every entry" : JSON.stringify(of);
}

export function headersText(names: readonly string[] | undefined): string {
  return names === undefined || names.length === 0 ? "none" : names.join(", ");
}

export function graceText(seconds: number | undefined): string {
  return seconds === undefined ? "as the installation is set" : `${seconds} s`;
}

/** What an answer cannot show that it differs, for it is never shown. */
export interface Hidden {
  /** Values of headers are written anew. */
  readonly headers: boolean;
  /** The address names a user and a password. */
  readonly credentials: boolean;
}

export function hiddenIn(edit: Edit): Hidden {
  return {
    headers: edit.headers === "set",
    credentials: /^https?:\/\/[^/?#]*@/.test(edit.url),
  };
}

/** What differs between a sync and what a change makes of it, in words. */
export function differences(before: Shown, after: Shown, hidden: Hidden): Difference[] {
  const found: Difference[] = [];
  const look = (what: string, one: string, other: string, when: string) => {
    if (one !== other) found.push({ what, before: one, after: other, when });
  };
  const ends = after.ending_schedule?.ends_at;
  look(
    "Schedule",
    scheduleText(before.schedule),
    scheduleText(after.schedule),
    ends === undefined
      ? "The next window."
      : `Windows from ${ends} on. Until then as before: no window is missing or doubled.`,
  );
  const groups = (of: Shown) => ["subject", ...of.query.group_by_dimensions].join(", ");
  look("One entry for each", groups(before), groups(after), RUNS);
  look("Filter", filterText(before.filter), filterText(after.filter), RUNS);
  look("Address", before.endpoint.url, after.endpoint.url, ATTEMPTS);
  if (hidden.credentials) look("User and password", "as before", "those in the address", ATTEMPTS);
  const [had, has] = [before.endpoint.header_names, after.endpoint.header_names];
  const moved = before.endpoint.url !== after.endpoint.url && had !== undefined;
  look(
    "Headers",
    headersText(had),
    `${headersText(has)}${hidden.headers ? ", with a new value" : ""}`,
    moved && has === undefined ? `${ATTEMPTS} ${NOT_THERE}` : ATTEMPTS,
  );
  look("Late usage", LATE[before.revisions], LATE[after.revisions], "What comes from now on.");
  const [waited, waits] = [graceText(before.grace_seconds), graceText(after.grace_seconds)];
  look("Waits for late events", waited, waits, RUNS);
  return found;
}
