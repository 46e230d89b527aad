import { goText, keyHeader, quoted } from "./snippets.js";

/** What of a meter the first event is made for. */
export interface Measured {
  readonly event_type: string;
  readonly value_property?: string | undefined;
  readonly dimensions: Readonly<Record<string, string>>;
}

export interface FirstEvent {
  readonly specversion: "1.0";
  readonly id: string;
  readonly source: string;
  readonly type: string;
  readonly subject: string;
  readonly time: string;
  readonly data: Readonly<Record<string, unknown>>;
}

const DAY_MS = 86_400_000;
const VALUE = 1250;
const DIMENSION = "large";

/** An event that a meter can measure, of yesterday: its day is over, so a sync can report it at once. */
export function firstEvent(meter: Measured, nowMs: number): FirstEvent {
  const day = new Date(nowMs - DAY_MS).toISOString().slice(0, 10);
  const data: Record<string, unknown> = {};
  for (const path of Object.values(meter.dimensions)) put(data, path, DIMENSION);
  if (meter.value_property !== undefined) put(data, meter.value_property, VALUE);
  return {
    specversion: "1.0",
    id: "first-event",
    source: "first-visit",
    type: meter.event_type,
    subject: "acme",
    time: `${day}T09:15:00Z`,
    data,
  };
}

/** Paths of names only, such as `$.usage.tokens`: the form of the tour takes no other ones. */
export const PLAIN_PATH = /^\$(\.[A-Za-z_][A-Za-z0-9_]*)+$/;

function put(data: Record<string, unknown>, path: string, value: unknown): void {
  if (!PLAIN_PATH.test(path)) return;
  const names = path.slice(2).split(".");
  const last = names.pop() as string;
  let place = data;
  for (const name of names) {
    const inner = place[name];
    if (typeof inner !== "object" || inner === null) place[name] = {};
    place = place[name] as Record<string, unknown>;
  }
  place[last] = value;
}

/** The window of a schedule that an instant lies in. */
export function windowOf(instant: string, interval: "1m" | "1h" | "1d") {
  const ms = { "1m": 60_000, "1h": 3_600_000, "1d": DAY_MS }[interval];
  const from = Math.floor(Date.parse(instant) / ms) * ms;
  return { from: new Date(from).toISOString(), to: new Date(from + ms).toISOString() };
}

/** The longest interval whose window of an instant is over. */
export function endedInterval(instant: string, nowMs: number): "1m" | "1h" | "1d" {
  for (const interval of ["1d", "1h"] as const)
    if (Date.parse(windowOf(instant, interval).to) <= nowMs) return interval;
  return "1m";
}

const EVENTS = "/api/v3/metering/events";
const TYPE = "application/cloudevents+json";

/** Programs that send an event, each whole and without a library; `keyed`: the server asks for keys. */
export function sending(
  server: string,
  event: FirstEvent,
  keyed: boolean,
): readonly (readonly [language: string, program: string])[] {
  return [
    ["curl", curl(server, event, keyed)],
    ["Python", python(server, event, keyed)],
    ["TypeScript", typescript(server, event, keyed)],
    ["Go", go(server, event, keyed)],
  ];
}

function curl(server: string, event: FirstEvent, keyed: boolean): string {
  return `curl -i ${quoted(server + EVENTS)} \\\n  -H 'Content-Type: ${TYPE}'${keyHeader(keyed)} \\\n  -d ${quoted(JSON.stringify(event, null, 2))}`;
}

function python(server: string, event: FirstEvent, keyed: boolean): string {
  const key = keyed
    ? `\nheaders["Authorization"] = "Bearer " + os.environ["METERLINE_API_KEY"]`
    : "";
  // Strings and numbers of JSON are those of Python.
  return `import json${keyed ? "\nimport os" : ""}
from urllib.request import Request, urlopen

event = ${JSON.stringify(event, null, 4)}
headers = {"Content-Type": "${TYPE}"}${key}
url = ${JSON.stringify(server + EVENTS)}
request = Request(url, json.dumps(event).encode(), headers)
print(urlopen(request).status)  # 202: it is stored`;
}

function typescript(server: string, event: FirstEvent, keyed: boolean): string {
  const key = keyed ? `\n    Authorization: \`Bearer \${process.env["METERLINE_API_KEY"]}\`,` : "";
  return `const event = ${JSON.stringify(event, null, 2)};
const answer = await fetch(${JSON.stringify(server + EVENTS)}, {
  method: "POST",
  headers: {
    "Content-Type": "${TYPE}",${key}
  },
  body: JSON.stringify(event),
});
console.log(answer.status); // 202: it is stored`;
}

function go(server: string, event: FirstEvent, keyed: boolean): string {
  const key = keyed
    ? `\n\trequest.Header.Set("Authorization", "Bearer "+os.Getenv("METERLINE_API_KEY"))`
    : "";
  return `package main

import (
	"fmt"
	"log"
	"net/http"${keyed ? '\n\t"os"' : ""}
	"strings"
)

func main() {
	event := strings.NewReader(${goText(JSON.stringify(event))})
	request, err := http.NewRequest("POST", ${goText(server + EVENTS)}, event)
	if err != nil {
		log.Fatal(err)
	}
	request.Header.Set("Content-Type", "${TYPE}")${key}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		log.Fatal(err)
	}
	defer answer.Body.Close()
	fmt.Println(answer.Status) // 202: it is stored
}`;
}
