// Meter tokens, send a few events, ask for the usage of each customer.
import { createClient, EventBatcher, unwrap } from "@meterline/client";

const client = createClient({
  baseUrl: process.env["METERLINE_URL"] ?? "http://127.0.0.1:8888",
  ...(process.env["METERLINE_API_KEY"] && { apiKey: process.env["METERLINE_API_KEY"] }),
});

unwrap(
  await client.POST("/api/v3/metering/meters", {
    body: {
      key: "example_tokens",
      name: "Tokens",
      aggregation: "sum",
      event_type: "example.prompt",
      value_property: "$.tokens",
      dimensions: { model: "$.model" },
    },
  }),
);

const events = new EventBatcher(client, { source: "example" });
await Promise.all([
  events.add({ type: "example.prompt", subject: "ada", data: { tokens: 250, model: "small" } }),
  events.add({ type: "example.prompt", subject: "ada", data: { tokens: "100.5", model: "large" } }),
  events.add({ type: "example.prompt", subject: "bob", data: { tokens: 40, model: "small" } }),
]); // fulfilled: every event is durable
await events.close();

let usage; // events count within seconds, each on its own
do {
  await new Promise((resolve) => setTimeout(resolve, 200));
  usage = unwrap(
    await client.POST("/api/v3/metering/meters/{meterId}/query", {
      params: { path: { meterId: "example_tokens" } },
      body: { group_by_dimensions: ["subject"] },
    }),
  );
} while (usage.data.reduce((counted, row) => counted + row.counted, 0) < 3);
for (const row of usage.data) console.log(row.dimensions["subject"], row.value);
