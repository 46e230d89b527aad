import assert from "node:assert/strict";
import { test } from "node:test";

import { createClient, rateLimits } from "../src/index.js";
import { serving } from "./server.js";

test("the limits of the plan are read from an answer", async () => {
  const headers = {
    "RateLimit-Policy": '"requests";q=60;w=60, "events";q=100000;w=3600',
    RateLimit: '"requests";r=59;t=1, "events";r=99900;t=4',
  };
  await serving(
    () => ({ status: 200, body: "{}", headers }),
    async ({ url }) => {
      const { response } = await createClient({ baseUrl: url }).GET("/api/v3/metering/meters");
      assert.deepEqual(rateLimits(response.headers), [
        { name: "requests", quota: 60, windowSeconds: 60, remaining: 59, resetSeconds: 1 },
        {
          name: "events",
          quota: 100_000,
          windowSeconds: 3_600,
          remaining: 99_900,
          resetSeconds: 4,
        },
      ]);
    },
  );
});

test("without limits there are none", () => {
  for (const headers of [
    {},
    { RateLimit: '"requests";r=1;t=1' },
    { "RateLimit-Policy": '"requests";q=60;w=60', RateLimit: "rubbish" },
    { "RateLimit-Policy": "rubbish", RateLimit: '"requests";r=1;t=1' },
  ]) {
    assert.deepEqual(rateLimits(new Headers(headers as Record<string, string>)), []);
  }
});
