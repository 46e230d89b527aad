import { lasting } from "./times.js";
import { many } from "./figures.js";

/** What of the status is judged; null is what a part that does not answer would have told. */
export interface Measured {
  readonly caught_up: boolean | null;
  readonly lag_records: number | null;
  readonly freshness_ms: number | null;
  readonly account?:
    | { readonly received: number; readonly conflict: number; readonly invalid: number }
    | null
    | undefined;
  readonly differing_slices?:
    { readonly count: number; readonly hint: string | null } | null | undefined;
  readonly unavailable?: readonly { readonly part: string; readonly reason: string }[] | undefined;
}

export interface Sync {
  readonly slug: string;
  readonly state: string;
  readonly state_reason?: string | undefined;
  readonly last_run?: { readonly state: string; readonly reason?: string | undefined } | undefined;
  readonly status: {
    readonly owed_deliveries: number;
    readonly owed_seconds?: number | undefined;
    readonly last_run?:
      | { readonly id: string; readonly state: string; readonly reason?: string | undefined }
      | undefined;
    readonly receiver: {
      readonly state: string;
      readonly since?: string | undefined;
      readonly summary?: string | undefined;
    };
  };
}

export interface Trouble {
  readonly level: "bad" | "warn";
  readonly what: string;
  readonly todo: string;
  readonly link?: string;
}

/** Counting is called behind where its newest complete instant is older than this. */
export const STALE_MS = 120_000;
/** Deliveries are called late where the oldest is owed for longer than this. */
export const LATE_S = 600;

/** What is wrong, the worst first, each in words with what to do. Empty: nothing is wrong. */
export function troubles(status: Measured, syncs: readonly Sync[]): Trouble[] {
  const found = [...ofCounting(status), ...syncs.flatMap(ofSync)];
  return [
    ...found.filter((one) => one.level === "bad"),
    ...found.filter((one) => one.level === "warn"),
  ];
}

function ofCounting(status: Measured): Trouble[] {
  const found: Trouble[] = [];
  for (const part of status.unavailable ?? []) {
    found.push({
      level: "bad",
      what: `The ${part.part} store does not answer: ${part.reason}`,
      todo: "Look at its process and its disk. Nothing is lost: counting goes on when it is back.",
    });
  }
  if (status.freshness_ms !== null && status.freshness_ms > STALE_MS) {
    found.push({
      level: "bad",
      what: `Usage is ${lasting(status.freshness_ms)} old.`,
      todo: "Check that an aggregator runs. The partition whose completeness stands still, below, is the one to look at.",
    });
  }
  const differing = status.differing_slices;
  if (differing && differing.count > 0) {
    found.push({
      level: "bad",
      what: `${many(differing.count, "sealed slice")} of the log ${differing.count === 1 ? "is" : "are"} not counted as the log says.`,
      todo: differing.hint ?? "Run `meterline audit`.",
    });
  }
  const account = status.account;
  if (account && account.conflict > 0) {
    found.push({
      level: "warn",
      what: `${many(account.conflict, "event")} came again with other contents and did not count.`,
      todo: "Compare both, then send the right one with a new id, or dismiss it.",
      link: "/refusals?kind=conflict",
    });
  }
  if (account && account.invalid > 0) {
    found.push({
      level: "warn",
      what: `${many(account.invalid, "record")} could not be read as an event.`,
      todo: "See the reason of each, and correct the sender.",
      link: "/events?verdict=invalid",
    });
  }
  return found;
}

function ofSync(sync: Sync): Trouble[] {
  const link = `/syncs/${encodeURIComponent(sync.slug)}`;
  const found: Trouble[] = [];
  const { receiver, owed_deliveries: owed, owed_seconds: seconds } = sync.status;
  if (sync.state === "parked") {
    found.push({
      level: "bad",
      what: `Sync ${sync.slug} is parked: ${sync.state_reason ?? "its receiver refuses everything"}.`,
      todo: "Mend the receiver, then resume the sync.",
      link,
    });
  } else if (receiver.state === "down" || receiver.state === "failing") {
    const word = receiver.state === "down" ? "is down" : "refuses deliveries";
    found.push({
      level: "bad",
      what: `The receiver of sync ${sync.slug} ${word}.`,
      todo: `${receiver.summary ?? ""} Mend the receiver: what is owed is sent by itself when it is back.`.trim(),
      link,
    });
  } else if (owed > 0 && (seconds ?? 0) > LATE_S) {
    found.push({
      level: "warn",
      what: `Sync ${sync.slug} owes ${many(owed, "delivery", "deliveries")}, the oldest for ${lasting((seconds ?? 0) * 1000)}.`,
      todo: "See what is waiting, and why.",
      link,
    });
  }
  const last = sync.status.last_run;
  if (last !== undefined && (last.state === "failed" || last.state === "partly_failed")) {
    const part = last.state === "failed" ? "failed" : "failed in part";
    found.push({
      level: "bad",
      what: `The last run of sync ${sync.slug} ${part}${last.reason ? `: ${last.reason}` : "."}`,
      todo: "See which deliveries failed, and replay them.",
      link: `${link}?run=${encodeURIComponent(last.id)}`,
    });
  }
  if (sync.state === "paused") {
    found.push({
      level: "warn",
      what: `Sync ${sync.slug} is paused.`,
      todo: "Resume it, and choose what to send of what it owes.",
      link,
    });
  }
  return found;
}
