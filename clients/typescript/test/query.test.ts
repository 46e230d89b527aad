import assert from "node:assert/strict";
import { test } from "node:test";

import { createClient, unwrap } from "../src/index.js";
import { queryString } from "../src/query.js";
import { serving } from "./server.js";

test("deepObject, to any depth; lists are repeated; what is not said is left out", () => {
  assert.equal(queryString({ page: { size: 5, after: undefined } }), "page[size]=5");
  assert.equal(queryString({ filter: { id: { eq: "a b&c" } } }), "filter[id][eq]=a%20b%26c");
  assert.equal(
    queryString({ subject: ["a", "ü"], sort: "time" }),
    "subject=a&subject=%C3%BC&sort=time",
  );
  assert.equal(
    queryString({ filter: { "a[]": { exists: true } } }),
    "filter[a%5B%5D][exists]=true",
  );
  assert.equal(queryString({ from: new Date(0) }), "from=1970-01-01T00%3A00%3A00.000Z");
  assert.equal(queryString({}), "");
});

test("parameters of an operation reach the server so", async () => {
  await serving(
    () => ({ status: 200, body: "{}" }),
    async ({ url, asked }) => {
      const client = createClient({ baseUrl: url });
      const query = { page: { size: 5, number: 2 }, filter: { key: { eq: "x=" } } };
      unwrap(await client.GET("/api/v3/metering/meters", { params: { query } }));
      assert.equal(
        asked[0]?.url,
        "/api/v3/metering/meters?page[size]=5&page[number]=2&filter[key][eq]=x%3D",
      );
    },
  );
});
