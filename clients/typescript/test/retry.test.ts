import assert from "node:assert/strict";
import { test } from "node:test";

import { createClient, ProblemError, RETRY_POLICY, unwrap } from "../src/index.js";
import { pauseMs, retryAfterMs } from "../src/retry.js";
import { PROBLEM, problem, serving } from "./server.js";

const SOON = { delayMinMs: 1, delayMaxMs: 4 };
const PAGE = JSON.stringify({ data: [], meta: { page: { number: 1, size: 20, total: 0 } } });

test("pauses grow, are bounded, and end", () => {
  const away = { status: 503, retryAfterMs: undefined };
  const least = [1, 2, 3, 4, 5].map((attempt) => pauseMs(RETRY_POLICY, attempt, away, 0));
  assert.deepEqual(least, [100, 200, 400, 800, 1_600]);
  const most = [1, 2, 3, 4, 5].map((attempt) => pauseMs(RETRY_POLICY, attempt, away, 1));
  assert.deepEqual(most, [200, 400, 800, 1_600, 3_200]);
  const patient = { ...RETRY_POLICY, attemptsMax: 100 };
  assert.equal(pauseMs(patient, 60, away, 1), RETRY_POLICY.delayMaxMs);
  assert.equal(pauseMs(RETRY_POLICY, RETRY_POLICY.attemptsMax, away, 0), undefined);
  assert.equal(pauseMs(RETRY_POLICY, 1, undefined, 0), 100, "a network error");
});

test("only what may pass by itself is tried again", () => {
  for (const status of [200, 202, 301, 400, 401, 403, 404, 409, 413]) {
    assert.equal(pauseMs(RETRY_POLICY, 1, { status, retryAfterMs: 0 }, 0), undefined, `${status}`);
  }
  for (const status of [429, 500, 502, 503, 504]) {
    assert.notEqual(pauseMs(RETRY_POLICY, 1, { status, retryAfterMs: 0 }, 0), undefined);
  }
});

test("no pause is shorter than Retry-After; one that is too long ends it", () => {
  for (const draw of [0, 0.3, 0.999]) {
    const pause = pauseMs(RETRY_POLICY, 1, { status: 429, retryAfterMs: 7_000 }, draw);
    assert.ok(pause !== undefined && pause > 7_000 && pause <= 7_202, `${pause}`);
  }
  assert.equal(pauseMs(RETRY_POLICY, 1, { status: 429, retryAfterMs: 120_001 }, 0), undefined);
});

test("Retry-After is seconds or a date", () => {
  const read = (value: string, date?: string) =>
    retryAfterMs(new Headers({ "Retry-After": value, ...(date ? { Date: date } : {}) }), 1_000);
  assert.equal(read("3"), 3_000);
  assert.equal(read("Thu, 01 Jan 1970 00:00:05 GMT"), 4_000);
  assert.equal(read("Thu, 01 Jan 1970 00:00:05 GMT", "Thu, 01 Jan 1970 00:00:03 GMT"), 2_000);
  assert.equal(read("Thu, 01 Jan 1970 00:00:00 GMT"), 0);
  assert.equal(read("soon"), undefined);
  assert.equal(retryAfterMs(new Headers(), 0), undefined);
});

test("503 and 429 with Retry-After, a broken connection, half an answer, then success", async () => {
  const answers = [
    { status: 503, headers: { "Retry-After": "1" } },
    { status: 429, headers: { "Retry-After": "1" } },
    { status: 0, broken: true },
    { status: 200, body: PAGE.slice(0, 9), broken: true },
    { status: 200, headers: { "Content-Type": "application/json" }, body: PAGE },
  ];
  await serving(
    (_, count) => answers[count - 1] ?? { status: 500 },
    async ({ url, asked }) => {
      const client = createClient({ baseUrl: `${url}/`, apiKey: "ml_secret", retry: SOON });
      const page = unwrap(await client.GET("/api/v3/metering/meters"));
      assert.deepEqual(page.data, []);
      assert.deepEqual(
        asked.map((one) => [one.method, one.url, one.headers.authorization]),
        answers.map(() => ["GET", "/api/v3/metering/meters", "Bearer ml_secret"]),
      );
      const [first, second, third] = asked.map((one) => one.atMs);
      assert.ok((second ?? 0) - (first ?? 0) >= 1_000, "503: Retry-After has passed");
      assert.ok((third ?? 0) - (second ?? 0) >= 1_000, "429: Retry-After has passed");
    },
  );
});

test("a body is the same in every attempt", async () => {
  await serving(
    (_, count) => (count < 3 ? { status: 500 } : { status: 202 }),
    async ({ url, asked }) => {
      const client = createClient({ baseUrl: url, retry: SOON });
      const event = { specversion: "1.0" as const, id: "é", source: "s", type: "t", subject: "u" };
      unwrap(
        await client.POST("/api/v3/metering/events", {
          body: event,
          headers: { "Content-Type": "application/cloudevents+json" },
        }),
      );
      assert.deepEqual(
        asked.map((one) => one.body),
        Array(3).fill(JSON.stringify(event)),
      );
      assert.equal(asked[2]?.headers["content-type"], "application/cloudevents+json");
    },
  );
});

test("attempts are bounded, and the last answer is a problem", async () => {
  await serving(
    () => ({ status: 503, headers: PROBLEM, body: problem(503, "unavailable") }),
    async ({ url, asked }) => {
      const client = createClient({ baseUrl: url, retry: { ...SOON, attemptsMax: 3 } });
      const outcome = await client.GET("/api/v3/metering/meters");
      assert.throws(
        () => unwrap(outcome),
        (error) =>
          error instanceof ProblemError &&
          error.status === 503 &&
          error.type === "urn:meterline:problem:unavailable" &&
          error.instance === "urn:request:01M7ZMF4YA7D2SQ292V0W9JPT8",
      );
      assert.equal(asked.length, 3);
    },
  );
});

test("a caller's abort ends it at once", async () => {
  await serving(
    () => ({ status: 429, headers: { "Retry-After": "60" } }),
    async ({ url, asked }) => {
      const client = createClient({ baseUrl: url });
      const call = client.GET("/api/v3/metering/meters", { signal: AbortSignal.timeout(50) });
      await assert.rejects(call, { name: "TimeoutError" });
      assert.equal(asked.length, 1);
    },
  );
});

test("a redirect is no success", async () => {
  await serving(
    () => ({ status: 302, headers: { Location: "/elsewhere" } }),
    async ({ url, asked }) => {
      const client = createClient({ baseUrl: url });
      assert.throws(() => unwrap({ response: new Response(null, { status: 302 }) }));
      const outcome = await client.DELETE("/api/v3/metering/meters/{meterId}", {
        params: { path: { meterId: "m" } },
      });
      assert.throws(() => unwrap(outcome), { status: 302 });
      assert.equal(asked.length, 1);
    },
  );
});
