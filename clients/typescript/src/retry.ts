/** How often and how soon a request that failed is sent again (contract 7.4, 7.5 and 8). */
export interface RetryPolicy {
  /** Times that a request is sent at most, the first included. 1: never again. */
  readonly attemptsMax: number;
  /** Pause after the first failure, in ms; it doubles with each further one. */
  readonly delayMinMs: number;
  /** Longest pause that the client chooses by itself, in ms. */
  readonly delayMaxMs: number;
  /** Longest `Retry-After` that is waited for, in ms; beyond it the answer is handed on at once. */
  readonly retryAfterMaxMs: number;
  /** Time for one attempt, from connecting to the last byte of the answer, in ms. */
  readonly attemptTimeoutMs: number;
}

export const RETRY_POLICY: RetryPolicy = {
  attemptsMax: 6,
  delayMinMs: 200,
  delayMaxMs: 20_000,
  retryAfterMaxMs: 120_000,
  attemptTimeoutMs: 60_000,
};

/** What came of one attempt: an answer, or `undefined` where there was none (a network error). */
export interface Outcome {
  readonly status: number;
  readonly retryAfterMs: number | undefined;
}

/**
 * The pause before the next attempt in ms, or `undefined` if this one was the last.
 *
 * `attempt` counts from 1; `draw` is random, in [0, 1). At least half of each pause is kept, so that
 * a server that is down is left alone; after `Retry-After` the pause comes on top of it, so that its
 * senders do not all come back in the same instant.
 */
export function pauseMs(
  policy: RetryPolicy,
  attempt: number,
  outcome: Outcome | undefined,
  draw: number,
): number | undefined {
  const again = outcome === undefined || outcome.status === 429 || outcome.status >= 500;
  if (!again || attempt >= policy.attemptsMax) return undefined;
  const grown = Math.min(policy.delayMaxMs, policy.delayMinMs * 2 ** (attempt - 1));
  const after = outcome?.retryAfterMs;
  if (after === undefined) return Math.ceil(grown * (0.5 + draw / 2));
  if (after > policy.retryAfterMaxMs) return undefined;
  return Math.ceil(after + grown * draw) + 1; // timers may fire a little early
}

/** `Retry-After` in ms: seconds or a date (RFC 9110, 10.2.3), the latter by the server's clock. */
export function retryAfterMs(headers: Headers, nowMs: number): number | undefined {
  const text = headers.get("retry-after")?.trim();
  if (text === undefined || text === "") return undefined;
  if (/^\d+$/.test(text)) return Number(text) * 1_000;
  const at = Date.parse(text);
  if (Number.isNaN(at)) return undefined;
  const serverNow = Date.parse(headers.get("date") ?? "");
  return Math.max(0, at - (Number.isNaN(serverNow) ? nowMs : serverNow));
}

export type Fetch = (request: Request) => Promise<Response>;

/**
 * `fetch` that tries again by `policy`. The answer is read to its end before it is handed on, for
 * a connection can also break in the middle of one.
 *
 * Redirects are not followed: a POST that becomes a GET on its way would look like a success.
 * Rejects with the last network error, or with the reason of the caller's own abort.
 */
export function retrying(policy: RetryPolicy, fetch: Fetch = globalThis.fetch): Fetch {
  return async (request) => {
    const body = request.body === null ? undefined : await request.arrayBuffer();
    for (let attempt = 1; ; attempt++) {
      let answer: Response | undefined;
      let failure: unknown;
      try {
        answer = await once(request, body, policy.attemptTimeoutMs, fetch);
      } catch (error) {
        request.signal.throwIfAborted();
        failure = error;
      }
      const outcome = answer && {
        status: answer.status,
        retryAfterMs: retryAfterMs(answer.headers, Date.now()),
      };
      const pause = pauseMs(policy, attempt, outcome, Math.random());
      if (pause === undefined) {
        if (answer === undefined) throw failure;
        return answer;
      }
      await sleep(pause, request.signal);
    }
  };
}

async function once(
  request: Request,
  body: ArrayBuffer | undefined,
  timeoutMs: number,
  fetch: Fetch,
): Promise<Response> {
  const signal = AbortSignal.any([request.signal, AbortSignal.timeout(timeoutMs)]);
  const { method, headers } = request;
  const sent = { method, headers, signal, redirect: "manual" as const };
  const answer = await fetch(
    new Request(request.url, body === undefined ? sent : { ...sent, body }),
  );
  const bytes = await answer.arrayBuffer();
  const { status, statusText } = answer;
  // these statuses have no body, and a Response with them may not be given one
  const content = [101, 204, 205, 304].includes(status) ? null : bytes;
  return new Response(content, { status, statusText, headers: answer.headers });
}

function sleep(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = () => {
      clearTimeout(timer);
      reject(signal.reason as Error);
    };
    const timer = setTimeout(() => {
      signal.removeEventListener("abort", stop);
      resolve();
    }, ms);
    signal.addEventListener("abort", stop, { once: true });
    if (signal.aborted) stop();
  });
}
