// The whole way: define a meter, send events, ask, report, receive, verify, replay.
// Prints what it saw as JSON.
import assert from "node:assert/strict";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";

import { createClient, DeliveryError, EventBatcher, unwrap, verify } from "@meterline/client";

const METER = "way_ts_tokens";
const REPORT = "way-ts";
const SUBJECTS = ["ada", "bob", "cyd"];
const EVENTS = 600;
const HOUR_MS = 3_600_000;

const { METERLINE_URL, METERLINE_API_KEY } = process.env;
assert(METERLINE_URL && METERLINE_API_KEY, "set METERLINE_URL and METERLINE_API_KEY");
const client = createClient({ baseUrl: METERLINE_URL, apiKey: METERLINE_API_KEY });

/** What `look` finds, asked until it finds something. */
async function until<T>(look: () => T | undefined | Promise<T | undefined>): Promise<T> {
  for (let turn = 0; turn < 600; turn++, await sleep(100)) {
    const found = await look();
    if (found !== undefined) return found;
  }
  throw new Error(`not within a minute: ${look.toString()}`);
}

// a receiver as the contract wants it: 405, 400, or it books the delivery
const booked: { id: string; subject: string; total: number; bytes: string }[] = [];
let refused = 0;
let signingSecret = "";
const receiver = createServer((request, response) => {
  const chunks: Buffer[] = [];
  request.on("data", (chunk: Buffer) => chunks.push(chunk));
  request.on("end", () => {
    if (request.method !== "POST") return response.writeHead(405).end();
    const body = Buffer.concat(chunks);
    try {
      const changed = Buffer.from(body);
      changed[changed.length >> 1]! ^= 1;
      assert.throws(() => verify(changed, request.headers, signingSecret), DeliveryError);
      refused++;
      const { id, message } = verify(body, request.headers, signingSecret);
      const total = message.usage.reduce((sum, entry) => sum + Number(entry.valueText), 0);
      booked.push({ id, subject: message.query.subject, total, bytes: body.toString("hex") });
      return response.writeHead(200).end("{}");
    } catch (error) {
      return response.writeHead(error instanceof DeliveryError ? 400 : 500).end();
    }
  });
});
await new Promise<void>((resolve) => receiver.listen(0, "127.0.0.1", resolve));
const endpoint = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/usage`;

const meter = unwrap(
  await client.POST("/api/v3/metering/meters", {
    body: {
      key: METER,
      name: "Tokens",
      aggregation: "sum",
      event_type: "way.ts",
      value_property: "$.tokens",
      dimensions: { model: "$.model" },
    },
  }),
);

const from = new Date(Math.floor(Date.now() / HOUR_MS - 2) * HOUR_MS);
const to = new Date(from.getTime() + HOUR_MS);
const batcher = new EventBatcher(client, { source: "way-ts", eventsMax: 100 });
const added = Array.from({ length: EVENTS }, (_, n) =>
  batcher.add({
    id: `event-${n}`,
    type: "way.ts",
    subject: SUBJECTS[n % SUBJECTS.length]!,
    time: new Date(from.getTime() + n * 1_000).toISOString(),
    data: { tokens: n, model: n % 2 ? "small" : "large" },
  }),
);
await batcher.close();
await Promise.all(added);

const usage = await until(async () => {
  const answer = unwrap(
    await client.POST("/api/v3/metering/meters/{meterId}/query", {
      params: { path: { meterId: METER } },
      body: {
        from: from.toISOString(),
        to: to.toISOString(),
        group_by_dimensions: ["subject"],
      },
    }),
  );
  const total = answer.data.reduce((sum, row) => sum + Number(row.value), 0);
  return total === (EVENTS * (EVENTS - 1)) / 2 ? answer.data : undefined;
});

const report = unwrap(
  await client.POST("/api/v3/metering/reports", {
    body: {
      slug: REPORT,
      meter_id_or_key: meter.id,
      type: "webhook",
      schedule: { interval: "1d" },
      query: { group_by_dimensions: ["model"] },
      endpoint: { url: endpoint },
    },
  }),
);
signingSecret = report.signing_secret;
const run = unwrap(
  await client.POST("/api/v3/metering/reports/{reportId}/runs", {
    params: { path: { reportId: REPORT } },
    body: { from: from.toISOString(), to: to.toISOString(), revise: false },
  }),
);
await until(() => (booked.length === SUBJECTS.length ? booked : undefined));

const deliveries = await until(async () => {
  const { data } = unwrap(
    await client.GET("/api/v3/metering/deliveries", {
      params: { query: { page: { size: 10 }, filter: { run: run.id } } },
    }),
  );
  return data.every((one) => one.state === "delivered") ? data : undefined;
});
const first = booked[0]!;
unwrap(
  await client.POST("/api/v3/metering/deliveries/{deliveryId}/replay", {
    params: { path: { deliveryId: first.id } },
  }),
);
const again = await until(() => booked[SUBJECTS.length]);

console.log(
  JSON.stringify({
    usage: Object.fromEntries(usage.map((row) => [row.dimensions["subject"], row.value])),
    booked: Object.fromEntries(booked.map((one) => [one.subject, one.total])),
    delivered: deliveries.map((one) => one.id).sort(),
    received: [...new Set(booked.map((one) => one.id))].sort(),
    refused,
    replayed: { sameId: again.id === first.id, sameBytes: again.bytes === first.bytes },
  }),
);
receiver.close();
receiver.closeAllConnections();
