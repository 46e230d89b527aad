import assert from "node:assert/strict";
import { test } from "node:test";

import {
  change,
  dimensions,
  grouped,
  many,
  rateText,
  share,
  short,
  sumOf,
} from "../src/rules/figures.js";
import { endedInterval, firstEvent, sending, windowOf } from "../src/rules/first.js";
import { byField, faultAt, unplaced } from "../src/rules/faults.js";
import { measured, pathsIn, previewable, repeated } from "../src/rules/draft.js";
import { draftOf, eventOf } from "../src/rules/event-draft.js";
import { parsed, printed } from "../src/rules/exact.js";
import { windowsUntil } from "../src/rules/windows.js";
import { troubles, type Sync } from "../src/rules/health.js";
import { busiest, hoursOf } from "../src/rules/hours.js";
import { aligned, before, cellsOf, fitting, windowStarts } from "../src/rules/range.js";
import { rateOf, sampled, type Sample } from "../src/rules/rate.js";
import { seriesOf } from "../src/rules/series.js";
import { changeOf, differences, editOf, hiddenIn, type Shown } from "../src/rules/sync-change.js";
import { curl, go, quoted, typescript } from "../src/rules/snippets.js";
import { away, isZone, lasting, retimed, written } from "../src/rules/times.js";

test("figures are grouped without a float", () => {
  assert.equal(grouped("12345678901234567890.000000001"), "12,345,678,901,234,567,890.000000001");
  assert.equal(grouped("-1000"), "-1,000");
  assert.equal(grouped("999"), "999");
  assert.equal(grouped("1E+3"), "1E+3");
  assert.equal(short(12345), "12.3k");
  assert.equal(short(-0.5), "-0.5");
  assert.equal(many(1, "event"), "1 event");
  assert.equal(many(2000, "delivery", "deliveries"), "2,000 deliveries");
  assert.equal(dimensions({ region: "north", tier: "pro" }), "region=north, tier=pro");
  assert.equal(dimensions({ tier: "" }), "tier=(empty)");
  assert.equal(dimensions({}), "none");
});

test("a sum is exact", () => {
  assert.equal(sumOf([]), "0");
  assert.equal(
    sumOf(["12345678901234567890.5", "0.000000001", "-0.5"]),
    "12345678901234567890.000000001",
  );
  assert.equal(sumOf(["0.25", "0.75"]), "1");
  assert.equal(sumOf(["-0.5", "0.2"]), "-0.3");
  assert.equal(sumOf(["1", "-1.00"]), "0");
  assert.equal(sumOf(["100", "900"]), "1000");
});

test("little is not nothing, and the rate of a pause is none", () => {
  assert.equal(rateText(0), "0");
  assert.equal(rateText(0.02), "< 0.1");
  assert.equal(rateText(2.345), "2.3");
  assert.equal(rateText(12_345.6), "12,346");
});

test("events a second now are not those of the hour in which a tab was hidden", () => {
  const of = (...samples: Sample[]) => rateOf(samples.reduce(sampled, [] as readonly Sample[]));
  assert.equal(of([0, 0]), undefined);
  assert.equal(of([0, 0], [3000, 30], [6000, 90]), 15);
  assert.equal(of([0, 0], [3_600_000, 7_200_000]), undefined);
  assert.equal(of([0, 0], [3_600_000, 7_200_000], [3_603_000, 7_200_030]), 10);
});

test("a share is never rounded to all or nothing", () => {
  assert.equal(share(1, 1_000_000), "< 0.1 %");
  assert.equal(share(999_999, 1_000_000), "> 99.9 %");
  assert.equal(share(0, 0), "0 %");
  assert.equal(change("200", "300"), "+50.0 %");
  assert.equal(change("0", "300"), undefined);
});

test("times are written in a zone, and in words", () => {
  assert.equal(written("2026-01-31T23:30:05Z", "Europe/Berlin"), "2026-02-01 00:30:05");
  assert.equal(written("2026-01-31T23:30:05Z", "UTC", "day"), "2026-01-31");
  assert.equal(written("never", "UTC"), "never");
  // The clock is set back: there are two such hours.
  assert.deepEqual(
    ["2026-10-25T00:30:05Z", "2026-10-25T01:30:05Z", "2026-10-25T02:30:05Z"].map((at) =>
      written(at, "Europe/Berlin"),
    ),
    ["2026-10-25 02:30:05 +02:00", "2026-10-25 02:30:05 +01:00", "2026-10-25 03:30:05"],
  );
  assert.equal(
    written("2026-11-01T06:00:00Z", "America/New_York", "minute"),
    "2026-11-01 01:00 -05:00",
  );
  assert.deepEqual(["Asia/Kolkata", "UTC", "Atlantis", ""].map(isZone), [true, true, false, false]);
  assert.equal(
    retimed("down since 2026-01-31T23:30:05.123Z.", "UTC"),
    "down since 2026-01-31 23:30:05.",
  );
  assert.equal(lasting(61_000), "1 minute");
  assert.equal(away("2026-01-01T00:00:00Z", Date.parse("2026-01-01T02:00:00Z")), "2 hours ago");
  assert.equal(away("2026-01-02T00:00:00Z", Date.parse("2026-01-01T00:00:00Z")), "in 1 day");
});

test("a range is widened to whole windows of its zone", () => {
  const range = { from: "2026-03-28T12:00:00Z", to: "2026-03-30T12:00:00Z" };
  const days = aligned(range, "P1D", "Europe/Berlin");
  assert.deepEqual(days, { from: "2026-03-27T23:00:00.000Z", to: "2026-03-30T22:00:00.000Z" });
  const lengths = windowStarts(days, "P1D", "Europe/Berlin").map((ms) =>
    new Date(ms).toISOString(),
  );
  // The clock is set forward on 29 March: that day has 23 hours.
  assert.deepEqual(lengths, [
    "2026-03-27T23:00:00.000Z",
    "2026-03-28T23:00:00.000Z",
    "2026-03-29T22:00:00.000Z",
  ]);
});

test("whole windows stay, also those of an hour that comes twice", () => {
  const range = { from: "2026-10-24T23:00:00Z", to: "2026-10-25T03:00:00Z" };
  assert.equal(
    windowStarts(aligned(range, "PT1H", "Europe/Berlin"), "PT1H", "Europe/Berlin").length,
    4,
  );
  assert.deepEqual(before(range, "PT1H", "UTC"), {
    from: "2026-10-24T19:00:00.000Z",
    to: "2026-10-24T23:00:00Z",
  });
  assert.deepEqual(fitting({ from: "2026-01-01T00:00:00Z", to: "2027-01-01T00:00:00Z" }), [
    "P1D",
    "P1M",
  ]);
});

test("a minute of an hour that comes twice is its own, and hours end on the hour of the zone", () => {
  const range = { from: "2026-10-25T00:30:15Z", to: "2026-10-25T01:30:15Z" }; // both are 02:30:15
  assert.deepEqual(aligned(range, "PT1M", "Europe/Berlin"), {
    from: "2026-10-25T00:30:00.000Z",
    to: "2026-10-25T01:31:00.000Z",
  });
  // The clock of Lord Howe is set by half an hour, at 15:30 UTC of 3 October.
  const hours = windowStarts(
    { from: "2026-10-03T14:30:00Z", to: "2026-10-03T17:00:00Z" },
    "PT1H",
    "Australia/Lord_Howe",
  ).map((ms) => new Date(ms).toISOString().slice(11, 16));
  assert.deepEqual(hours, ["14:30", "15:30", "16:00"]);
});

test("the period before has as many days and months, however long they are", () => {
  // The clock is set back on 25 October, and June has 30 days.
  const week = { from: "2026-10-21T22:00:00Z", to: "2026-10-28T23:00:00Z" };
  assert.deepEqual(before(week, "P1D", "Europe/Berlin"), {
    from: "2026-10-14T22:00:00.000Z",
    to: week.from,
  });
  const after = { from: "2026-10-25T23:00:00Z", to: "2026-10-27T23:00:00Z" };
  assert.equal(before(after, "P1D", "Europe/Berlin").from, "2026-10-23T22:00:00.000Z");
  const july = { from: "2026-07-01T00:00:00Z", to: "2026-08-01T00:00:00Z" };
  assert.equal(before(july, "P1M", "UTC").from, "2026-06-01T00:00:00.000Z");
});

const WELL: Sync = {
  slug: "daily",
  state: "active",
  status: { owed_deliveries: 0, receiver: { state: "well" } },
};
const FINE = {
  caught_up: true,
  lag_records: 0,
  freshness_ms: 5000,
  account: { received: 1, conflict: 0, invalid: 0 },
};

test("nothing wrong is no trouble", () => assert.deepEqual(troubles(FINE, [WELL]), []));

test("the worst stands first", () => {
  const paused = { ...WELL, slug: "a", state: "paused" };
  const down = {
    ...WELL,
    slug: "b",
    status: { ...WELL.status, receiver: { state: "down", summary: "no route" } },
  };
  const found = troubles({ ...FINE, account: { received: 9, conflict: 2, invalid: 0 } }, [
    paused,
    down,
  ]);
  assert.deepEqual(
    found.map((one) => one.level),
    ["bad", "warn", "warn"],
  );
  assert.match(found[0]!.what, /sync b is down\./);
  assert.match(found[0]!.todo, /^no route Mend/);
  assert.equal(found[1]!.link, "/refusals?kind=conflict");
});

test("a part that does not answer, and old usage, are named", () => {
  const found = troubles(
    { ...FINE, freshness_ms: 600_000, unavailable: [{ part: "usage", reason: "refused" }] },
    [],
  );
  assert.deepEqual(
    found.map((one) => one.what),
    ["The usage store does not answer: refused", "Usage is 10 minutes old."],
  );
});

test("slices that differ are named with what the server says to do", () => {
  const told = { count: 2, hint: "Run `meterline audit --repair`." };
  assert.deepEqual(troubles({ ...FINE, differing_slices: told }, []), [
    {
      level: "bad",
      what: "2 sealed slices of the log are not counted as the log says.",
      todo: told.hint,
    },
  ]);
  assert.deepEqual(troubles({ ...FINE, differing_slices: { count: 0, hint: null } }, []), []);
});

test("what a shell or Go would read otherwise is quoted", () => {
  assert.equal(quoted("it's"), `'it'\\''s'`);
  assert.match(
    curl("http://h", "tokens", { from: "x" }, false),
    /^curl 'http:\/\/h\/api\/v3\/metering\/meters\/tokens\/query'/,
  );
  assert.match(go("http://h", "tokens", { filters: "`" }, false), /NewReader\("\{/);
  for (const program of [curl, typescript, go]) {
    assert.ok(program("http://h", "tokens", {}, true).includes("METERLINE_API_KEY"));
    assert.ok(!program("http://h", "tokens", {}, false).includes("METERLINE_API_KEY"));
  }
});

test("a window without usage is zero where values add up, else a gap", () => {
  const rows = [
    { value: "5", from: "1970-01-01T00:00:00Z", dimensions: { model: "a" } },
    { value: "7", from: "1970-01-01T00:00:01Z", dimensions: { model: "" } },
  ];
  assert.deepEqual(seriesOf(rows, [0, 1000], true), [
    { label: "(empty)", values: [0, 7], texts: ["0", "7"] },
    { label: "a", values: [5, 0], texts: ["5", "0"] },
  ]);
  assert.deepEqual(seriesOf(rows, [0, 1000], false)[1]!.values, [5, null]);
  const exact = [{ ...rows[0]!, value: "12345678901234567890.000000001" }];
  assert.deepEqual(seriesOf(exact, [0, 1000], false)[0]!.texts, [exact[0]!.value, null]);
});

test("the first event fits its meter, and its day is over", () => {
  const meter = {
    event_type: "completion",
    value_property: "$.usage.tokens",
    dimensions: { model: "$.model", odd: "$['a b']" },
  };
  const nowMs = Date.parse("2026-03-01T00:00:01Z");
  const event = firstEvent(meter, nowMs);
  assert.equal(event.time, "2026-02-28T09:15:00Z");
  assert.deepEqual(event.data, { model: "large", usage: { tokens: 1250 } });
  assert.deepEqual(windowOf(event.time, "1d"), {
    from: "2026-02-28T00:00:00.000Z",
    to: "2026-03-01T00:00:00.000Z",
  });
  assert.equal(endedInterval(event.time, nowMs), "1d");
  assert.equal(endedInterval("2026-03-01T00:00:00Z", nowMs), "1m");
});

test("programs that send an event are quoted, and show a key only where one is asked for", () => {
  const event = firstEvent({ event_type: "it's", dimensions: {} }, 0);
  const open = sending("http://127.0.0.1:8888", event, false);
  assert.deepEqual(
    open.map(([language]) => language),
    ["curl", "Python", "TypeScript", "Go"],
  );
  assert.match(open[0]?.[1] ?? "", /"it'\\''s"/);
  assert.ok(open.every(([, program]) => !program.includes("METERLINE_API_KEY")));
  const keyed = sending("http://127.0.0.1:8888", event, true);
  assert.ok(keyed.every(([, program]) => program.includes("METERLINE_API_KEY")));
});

test("a form's draft is what the API takes", () => {
  const none = { aggregation: "sum", eventType: "", value: "", dimensions: [] } as const;
  assert.equal(previewable(none), false);
  assert.equal(previewable({ ...none, eventType: "call" }), false);
  assert.equal(previewable({ ...none, eventType: "call", aggregation: "count" }), true);
  const dimensions = [
    { id: 1, name: "model", path: "$.model" },
    { id: 2, name: "", path: "" },
  ];
  assert.deepEqual(
    measured({ aggregation: "count", eventType: "call", value: "$.left", dimensions }),
    { aggregation: "count", event_type: "call", dimensions: { model: "$.model" } },
  );
  assert.deepEqual(
    [...repeated([...dimensions, { id: 3, name: "model", path: "$.m" }])],
    ["model"],
  );
  assert.deepEqual(pathsIn({ tokens: 1, "a b": 2, deep: { x: true }, list: [1] }), [
    "$.tokens",
    '$["a b"]',
    "$.deep.x",
  ]);
});

test("a fault is found at its field, and at the field that it is a part of", () => {
  const told = [
    { field: "meter.value_property", reason: "is required" },
    { field: "meter.dimensions.a", reason: "is no path" },
    { field: "from", reason: "too early." },
  ];
  const faults = byField(told, "meter.");
  assert.equal(faultAt(faults, "value_property"), "Is required.");
  assert.equal(faultAt(faults, "dimensions"), "Is no path.");
  assert.deepEqual(
    [...unplaced(faults, ["dimensions", "value_property"])],
    [["from", "Too early."]],
  );
});

test("an event is mended without losing what the form does not show", () => {
  const sent = {
    id: "1",
    source: "s",
    type: "t",
    subject: "a",
    specversion: "1.0",
    traceparent: "x",
  };
  const draft = draftOf({ ...sent, data: { tokens: "many" } });
  assert.deepEqual(eventOf({ ...draft, data: '{"tokens":2}' }), {
    event: { ...sent, data: { tokens: 2 } },
  });
  assert.ok("fault" in eventOf({ ...draft, data: "{" }));
  assert.deepEqual(draftOf("text").others, { specversion: "1.0" });
});

test("numbers of JSON are shown and sent as they are written", () => {
  const json = '{"tokens":12345678901234567890.10,"small":1.5,"text":"1.50","list":[1e400,-0.0]}';
  assert.equal(printed(parsed(json)), json);
  assert.deepEqual(parsed('{"a":[1,"2",true,null]}'), { a: [1, "2", true, null] });
  assert.throws(() => parsed('{"tokens":01}'));
  assert.equal(printed(undefined), "");
  const draft = draftOf(
    parsed('{"id":12345678901234567890,"data":{"tokens":0.10000000000000001}}'),
  );
  assert.equal(draft.id, "12345678901234567890");
  assert.match(draft.data, /: 0\.10000000000000001\n/);
  assert.match(printed(eventOf(draft)), /"data":\{"tokens":0\.10000000000000001\}/);
});

test("the newest window of a preview is over, and has the newest usage if it can", () => {
  const nowMs = Date.parse("2026-02-03T10:30:00Z");
  const day = (from: string, to: string) => ({
    from: `2026-${from}T00:00:00.000Z`,
    to: `2026-${to}T00:00:00.000Z`,
  });
  assert.deepEqual(windowsUntil("2026-01-05T10:00:00Z", "1d", nowMs, 2), [
    day("01-05", "01-06"),
    day("01-04", "01-05"),
  ]);
  assert.deepEqual(windowsUntil("2026-02-03T10:00:00Z", "1d", nowMs, 1), [day("02-02", "02-03")]);
  // Days of New York begin at 5 o'clock of UTC.
  assert.deepEqual(windowsUntil("2026-01-05T03:00:00Z", "1d", nowMs, 1, "2026-01-01T05:00:00Z"), [
    { from: "2026-01-04T05:00:00.000Z", to: "2026-01-05T05:00:00.000Z" },
  ]);
});

test("cells cut a window into several, and never reach beyond it", () => {
  const from = "2026-01-01T00:00:00Z";
  assert.equal(cellsOf({ from, to: "2026-01-31T00:00:00Z" }), "P1D");
  assert.equal(cellsOf({ from, to: "2026-01-02T00:00:00Z" }), "PT1H");
  assert.equal(cellsOf({ from, to: "2026-01-01T01:00:00Z" }), "PT1M");
  // Days of a zone with half an hour are made of minutes.
  assert.equal(cellsOf({ from: "2025-12-31T18:30:00Z", to: "2026-01-01T18:30:00Z" }), "PT1M");
});

const START = "2026-01-01T00:00:00Z";
const SYNC: Shown = {
  schedule: { interval: "1h", start_at: START },
  query: { group_by_dimensions: ["model"] },
  filter: { subject: { $nin: ["internal"] } },
  endpoint: { url: "https://a.example/", header_names: ["X-Api-Key"] },
  revisions: "record",
  grace_seconds: 90,
};
const NOTHING = { headers: false, credentials: false };

test("a change of a sync names what differs, and nothing else", () => {
  const edit = editOf(SYNC);
  assert.deepEqual(changeOf(edit, SYNC), {});
  assert.deepEqual(changeOf({ ...edit, interval: "1d", grace: "" }, SYNC), {
    schedule: { interval: "1d", start_at: START },
    grace_seconds: null,
  });
  assert.deepEqual(changeOf({ ...edit, filter: "none", groups: [], headers: "none" }, SYNC), {
    query: { group_by_dimensions: [] },
    endpoint: { url: "https://a.example/", headers: {} },
    filter: {},
  });
  const written = { over: "5", subjects: "a\n\n b ", headerName: "K", headerValue: "v" };
  assert.deepEqual(changeOf({ ...edit, ...written }, SYNC), {}); // chosen is something else
  assert.deepEqual(changeOf({ ...edit, ...written, filter: "set", headers: "set" }, SYNC), {
    endpoint: { url: "https://a.example/", headers: { K: "v" } },
    filter: { usage: { $gt: "5" }, subject: { $in: ["a", "b"] } },
  });
});

test("each difference of a sync says from when it is", () => {
  assert.deepEqual(differences(SYNC, SYNC, NOTHING), []);
  const { filter: _, grace_seconds: __, ...rest } = SYNC;
  const after: Shown = {
    ...rest,
    schedule: { interval: "1d", start_at: START },
    ending_schedule: { ...SYNC.schedule, ends_at: "2026-02-01T00:00:00Z" },
    endpoint: { url: "https://b.example/" },
    revisions: "send",
  };
  const found = new Map(differences(SYNC, after, NOTHING).map((one) => [one.what, one]));
  assert.deepEqual(
    [...found.keys()],
    ["Schedule", "Filter", "Address", "Headers", "Late usage", "Waits for late events"],
  );
  assert.match(found.get("Schedule")?.when ?? "", /^Windows from 2026-02-01T00:00:00Z on/);
  assert.match(found.get("Headers")?.when ?? "", /write them anew/);
  assert.equal(found.get("Filter")?.after, "every entry");
});

test("what is never shown is told as a difference, too", () => {
  const edit = { ...editOf(SYNC), url: "https://me:secret@a.example/", headers: "set" } as const;
  const found = differences(SYNC, SYNC, hiddenIn(edit));
  assert.deepEqual(
    found.map((one) => one.what),
    ["User and password", "Headers"],
  );
  assert.ok(!JSON.stringify(found).includes("secret"));
  assert.deepEqual(hiddenIn({ ...editOf(SYNC), url: "https://a.example/?at=a@b" }), NOTHING);
});

test("an account has a bar for every hour, also where nothing arrived", () => {
  const line = { received: 5, duplicate: 1, conflict: 1, invalid: 0 };
  const hours = hoursOf({
    from: "2026-01-31T22:00:00Z",
    to: "2026-02-01T01:00:00Z",
    data: [
      { from: "2026-01-31T22:00:00Z", ...line },
      { from: "2026-02-01T00:00:00Z", ...line },
      { from: "2026-02-01T00:00:00.000Z", ...line, invalid: 2, received: 7 },
    ],
  });
  assert.deepEqual(
    hours.map((hour) => [hour.received, hour.again, hour.refused]),
    [
      [5, 1, 1],
      [0, 0, 0],
      [12, 2, 4],
    ],
  );
  assert.equal(hours[1]?.from, "2026-01-31T23:00:00.000Z");
  assert.equal(busiest(hours), hours[2]);
  assert.equal(busiest([]), undefined);
  assert.equal(
    busiest(hoursOf({ from: "2026-01-31T22:00:00Z", to: "2026-01-31T23:00:00Z", data: [] })),
    undefined,
  );
});
