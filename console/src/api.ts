import createFetchClient from "openapi-fetch";

import type { components, paths } from "../../clients/typescript/src/generated/v3.js";
import { ProblemError, unwrap } from "../../clients/typescript/src/problem.js";
import { queryString } from "../../clients/typescript/src/query.js";
import { parsed } from "./rules/exact.js";

export { ProblemError, queryString, unwrap };
export type Schemas = components["schemas"];

export const API = "/api/v3/metering";
/** With this header the server knows a request as the page's own; a form of another site cannot set it. */
const OWN = { "Meterline-Console": "1" };
/** Longer than any answer of a server that works. */
const ANSWER_WITHIN_MS = 60_000;

/** Raised where no server answered. */
export class Unreached extends Error {
  constructor() {
    super(
      "The server does not answer. Check that it runs. What is shown is asked for again by itself. Something that you sent may have been done: look before you send it again.",
    );
    this.name = "Unreached";
  }
}

/** How the server was met last: whether it answered, and until when a plan lets no more through.
 * `ended` is called where an answer says that the session has ended.
 */
export const met = {
  answered: true,
  limitedUntilMs: 0,
  heard: new Set<() => void>(),
  ended: (): void => undefined,
};

export function meet(answered: boolean): void {
  if (met.answered === answered) return;
  met.answered = answered;
  for (const hear of met.heard) hear();
}

/** What `early.ts` asked for already; each answer is taken once. */
async function early(request: Request | string, method: string): Promise<Response | undefined> {
  const { pathname, search } = new URL(
    typeof request === "string" ? request : request.url,
    location.href,
  );
  const path = pathname + search;
  const answer = method === "GET" ? window.meterlineEarly?.get(path) : undefined;
  window.meterlineEarly?.delete(path);
  return answer?.catch(() => undefined);
}

async function asked(request: Request | string, init?: RequestInit): Promise<Response> {
  const method = typeof request === "string" ? init?.method : request.method;
  let answer: Response;
  try {
    answer =
      (await early(request, method ?? "GET")) ??
      (await fetch(request, { ...init, signal: AbortSignal.timeout(ANSWER_WITHIN_MS) }));
  } catch {
    meet(false);
    throw new Unreached();
  }
  meet(true);
  const seconds = Number(answer.headers.get("Retry-After") ?? 0);
  if (answer.status === 429) met.limitedUntilMs = Date.now() + seconds * 1000;
  if (answer.status === 401) met.ended();
  return answer;
}

export const api = createFetchClient<paths, "application/json" | "application/problem+json">({
  headers: OWN,
  fetch: (request: Request) => asked(request),
  querySerializer: queryString,
});

/** A request that the typed client has no form for: a table as text, or the exact bytes of a body. */
export async function text(path: string, init: RequestInit = {}): Promise<string> {
  const answer = await asked(path, { ...init, headers: { ...OWN, ...init.headers } });
  if (answer.ok) return answer.text();
  throw new ProblemError(answer.status, await answer.json().catch(() => undefined));
}

/** What an address answers as JSON, with its numbers as they are written. */
export async function exact<T>(path: string): Promise<T> {
  return parsed(await text(path)) as T;
}

export interface Session {
  readonly access_mode: "none" | "keys";
  readonly signed_in: boolean;
  readonly scopes: readonly string[];
  readonly namespace?: string;
  readonly key?: { readonly id: string; readonly name: string };
  readonly expires_at?: string;
  readonly renewable_until?: string;
  readonly console?: string;
}

async function session(
  method: "GET" | "POST" | "DELETE",
  path = "",
  body?: object,
): Promise<string> {
  const json = { "Content-Type": "application/json" };
  const init =
    body === undefined ? { method } : { method, headers: json, body: JSON.stringify(body) };
  return text(`${API}/session${path}`, init);
}

export async function readSession(): Promise<Session> {
  return JSON.parse(await session("GET")) as Session;
}

export async function signIn(key: string): Promise<Session> {
  return JSON.parse(await session("POST", "", { key })) as Session;
}

export async function renewSession(): Promise<void> {
  await session("POST", "/renew");
}

export async function signOut(): Promise<void> {
  await session("DELETE");
}
