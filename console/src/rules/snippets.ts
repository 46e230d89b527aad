/** A query of usage as programs of three kinds; each runs as it is written. */
export interface Query {
  readonly from?: string | undefined;
  readonly to?: string | undefined;
  readonly granularity?: string | undefined;
  readonly time_zone?: string | undefined;
  readonly group_by_dimensions?: readonly string[] | undefined;
  readonly filters?: unknown;
}

/** Text inside single quotes of a shell. */
export function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

function path(meter: string): string {
  return `/api/v3/metering/meters/${encodeURIComponent(meter)}/query`;
}

export function curl(server: string, meter: string, query: Query): string {
  const body = JSON.stringify(query, null, 2);
  return `curl ${quoted(server + path(meter))} \\\n  -H 'Content-Type: application/json' \\\n  -H "Authorization: Bearer $METERLINE_KEY" \\\n  -d ${quoted(body)}`;
}

export function typescript(server: string, meter: string, query: Query): string {
  return `import { createClient, unwrap } from "@meterline/client";

const client = createClient({ baseUrl: ${JSON.stringify(server)}, apiKey: process.env.METERLINE_KEY });
const usage = unwrap(
  await client.POST("/api/v3/metering/meters/{meterId}/query", {
    params: { path: { meterId: ${JSON.stringify(meter)} } },
    body: ${JSON.stringify(query, null, 2).replaceAll("\n", "\n    ")},
  }),
);
for (const row of usage.data) console.log(row.from, row.dimensions, row.value);`;
}

export function go(server: string, meter: string, query: Query): string {
  return `body := strings.NewReader(${goText(JSON.stringify(query))})
request, err := http.NewRequest("POST", ${goText(server + path(meter))}, body)
if err != nil {
	return err
}
request.Header.Set("Content-Type", "application/json")
request.Header.Set("Authorization", "Bearer "+os.Getenv("METERLINE_KEY"))
answer, err := http.DefaultClient.Do(request)`;
}

export function goText(text: string): string {
  return text.includes("`") ? JSON.stringify(text) : `\`${text}\``;
}
