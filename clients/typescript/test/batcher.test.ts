import assert from "node:assert/strict";
import { test } from "node:test";

import { createClient, EventBatcher, NotAcceptedError, ProblemError } from "../src/index.js";
import type { BatcherOptions, EventRequest } from "../src/index.js";
import { PROBLEM, problem, serving, type Answer, type Asked } from "./server.js";

const TAKEN = { status: 202 };

async function batching(
  answer: (asked: Asked, count: number) => Answer,
  options: Partial<BatcherOptions>,
  use: (batcher: EventBatcher, asked: Asked[]) => Promise<void>,
): Promise<void> {
  await serving(answer, async ({ url, asked }) => {
    const client = createClient({ baseUrl: url, retry: { delayMinMs: 1, attemptsMax: 3 } });
    await use(new EventBatcher(client, { source: "test", ...options }), asked);
  });
}

const events = (asked: Asked) => JSON.parse(asked.body) as EventRequest[];
const ids = (asked: Asked) => events(asked).map((one) => one.id);
const sized = (id: string, size = 0) => ({
  id,
  type: "t",
  subject: "s",
  data: { x: "x".repeat(size) },
});

test("events travel together once they are enough, or have waited", async () => {
  await batching(
    () => TAKEN,
    { eventsMax: 3, lingerMs: 30, requestsMax: 1 },
    async (batcher, asked) => {
      await Promise.all(["1", "2", "3", "4"].map((id) => batcher.add(sized(id))));
      assert.deepEqual(asked.map(ids), [["1", "2", "3"], ["4"]]);
      assert.equal(asked[0]?.headers["content-type"], "application/cloudevents-batch+json");
      assert.equal(asked[0].url, "/api/v3/metering/events");
    },
  );
});

test("a body is never larger than said; a larger event travels alone", async () => {
  const options = { bytesMax: 1_000, requestsMax: 1 };
  await batching(
    () => TAKEN,
    options,
    async (batcher, asked) => {
      void batcher.add(sized("1", 300));
      void batcher.add(sized("2", 300));
      void batcher.add(sized("3", 300));
      void batcher.add(sized("4", 2_000));
      void batcher.add(sized("5", 1));
      await batcher.flush();
      assert.deepEqual(asked.map(ids), [["1", "2"], ["3"], ["4"], ["5"]]);
      for (const one of asked) assert.ok(one.body.length <= 1_000 || ids(one).length === 1);
    },
  );
});

test("what every event must have is filled in once, and repeated alike", async () => {
  const answer = (_: Asked, count: number) => (count === 1 ? { status: 503 } : TAKEN);
  await batching(answer, {}, async (batcher, asked) => {
    const input = { type: "t", subject: "s", data: { n: 1 } };
    const added = batcher.add(input);
    input.data.n = 2;
    await batcher.flush();
    await added;
    assert.equal(asked.length, 2);
    assert.equal(asked[0]?.body, asked[1]?.body);
    const [event] = events(asked[0]!);
    assert.equal(event?.specversion, "1.0");
    assert.equal(event.source, "test");
    assert.match(event.id, /^[0-9a-f-]{36}$/);
    assert.ok(Math.abs(Date.parse(event.time ?? "") - Date.now()) < 60_000);
    assert.deepEqual(event.data, { n: 1 });
  });
});

test("a faulty event does not take others with it", async () => {
  const answer = (asked: Asked) => {
    const faults = ids(asked).flatMap((id, index) =>
      id.startsWith("bad") ? [{ field: "type", reason: "r", source: "body", index }] : [],
    );
    if (faults.length === 0) return TAKEN;
    const body = problem(400, "invalid-event", { invalid_parameters: faults.slice(0, 1) });
    return { status: 400, headers: PROBLEM, body };
  };
  await batching(answer, {}, async (batcher, asked) => {
    const all = ["1", "bad2", "3", "bad4"].map((id) => batcher.add(sized(id)));
    const fates = await Promise.allSettled(all);
    assert.deepEqual(
      fates.map((one) => one.status),
      ["fulfilled", "rejected", "fulfilled", "rejected"],
    );
    const error = (fates[1] as PromiseRejectedResult).reason as NotAcceptedError;
    assert.equal(error.event.id, "bad2");
    assert.ok(error.cause instanceof ProblemError && error.cause.status === 400);
    assert.deepEqual(asked.map(ids), [
      ["1", "bad2", "3", "bad4"],
      ["1", "3", "bad4"],
      ["1", "3"],
    ]);
  });
});

test("a batch that is too large is halved", async () => {
  const answer = (asked: Asked) =>
    ids(asked).length > 1
      ? { status: 413, headers: PROBLEM, body: problem(413, "body-too-large") }
      : TAKEN;
  await batching(answer, { requestsMax: 1 }, async (batcher, asked) => {
    await Promise.all(["1", "2", "3"].map((id) => batcher.add(sized(id))));
    assert.deepEqual(asked.map(ids), [["1", "2", "3"], ["1", "2"], ["1"], ["2"], ["3"]]);
  });
});

test("what could not be sent is told event by event", async () => {
  await batching(
    () => ({ status: 0, broken: true }),
    {},
    async (batcher, asked) => {
      const fates = await Promise.allSettled(["1", "2"].map((id) => batcher.add(sized(id))));
      assert.deepEqual(
        fates.map((one) => one.status),
        ["rejected", "rejected"],
      );
      assert.equal(asked.length, 3, "attemptsMax");
    },
  );
});

test("a success that the API does not give is none", async () => {
  await batching(
    () => ({ status: 200, body: "{}" }),
    {},
    async (batcher) => {
      await assert.rejects(batcher.add(sized("1")), NotAcceptedError);
    },
  );
});

test("onError is told, and then nobody has to look at the promises", async () => {
  const refused: string[] = [];
  const onError = (error: NotAcceptedError) => refused.push(error.event.id);
  const answer = () => ({ status: 401, headers: PROBLEM, body: problem(401, "unauthenticated") });
  await batching(answer, { onError, heldBytesMax: 300 }, async (batcher, asked) => {
    void batcher.add(sized("1"));
    void batcher.add(sized("2", 400));
    void batcher.add({ ...sized("3"), data: { n: 1n } });
    await batcher.close();
    void batcher.add(sized("4"));
    await new Promise(setImmediate);
    assert.deepEqual(refused.sort(), ["1", "2", "3", "4"]);
    assert.deepEqual(asked.map(ids), [["1"]]);
  });
});

test("requests under way are bounded", async () => {
  const options = { eventsMax: 1, requestsMax: 2 };
  let most = 0;
  let now = 0;
  const slow = async (request: Request) => {
    most = Math.max(most, ++now);
    await request.arrayBuffer();
    await new Promise((resolve) => setTimeout(resolve, 5));
    now--;
    return new Response(null, { status: 202, headers: { "Content-Length": "0" } });
  };
  const client = createClient({ baseUrl: "http://meterline.test", fetch: slow });
  const batcher = new EventBatcher(client, { source: "test", ...options });
  for (let n = 0; n < 10; n++) void batcher.add(sized(String(n)));
  await batcher.close();
  assert.equal(most, 2);
});
