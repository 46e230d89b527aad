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

/** A command that posts JSON; `keyed`: the server asks for keys. */
export function posting(
  url: string,
  body: object,
  keyed: boolean,
  type = "application/json",
): string {
  return `curl ${quoted(url)} \\\n  -H 'Content-Type: ${type}'${keyHeader(keyed)} \\\n  -d ${quoted(JSON.stringify(body, null, 2))}`;
}

/** The header of a command that shows the key, on a line of its own. */
export function keyHeader(keyed: boolean): string {
  return keyed ? ` \\\n  -H "Authorization: Bearer $METERLINE_API_KEY"` : "";
}

export function curl(server: string, meter: string, query: Query, keyed: boolean): string {
  return posting(server + path(meter), query, keyed);
}

export function typescript(server: string, meter: string, query: Query, keyed: boolean): string {
  const key = keyed ? `, apiKey: process.env["METERLINE_API_KEY"] ?? ""` : "";
  return `import { createClient, unwrap } from "@meterline/client";

const client = createClient({ baseUrl: ${JSON.stringify(server)}${key} });
const usage = unwrap(
  await client.POST("/api/v3/metering/meters/{meterId}/query", {
    params: { path: { meterId: ${JSON.stringify(meter)} } },
    body: ${JSON.stringify(query, null, 2).replaceAll("\n", "\n    ")},
  }),
);
for (const row of usage.data) console.log(row.from, row.dimensions, row.value);`;
}

export function go(server: string, meter: string, query: Query, keyed: boolean): string {
  const key = keyed
    ? `\nrequest.Header.Set("Authorization", "Bearer "+os.Getenv("METERLINE_API_KEY"))`
    : "";
  return `body := strings.NewReader(${goText(JSON.stringify(query))})
request, err := http.NewRequest("POST", ${goText(server + path(meter))}, body)
if err != nil {
	return err
}
request.Header.Set("Content-Type", "application/json")${key}
answer, err := http.DefaultClient.Do(request)`;
}

export function goText(text: string): string {
  return text.includes("`") ? JSON.stringify(text) : `\`${text}\``;
}
