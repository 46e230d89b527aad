import { useState } from "react";

import type { Schemas } from "../api.js";
import { Select } from "../forms/fields.js";
import { Code, Empty, Table } from "../parts/basics.js";
import { dimensions, grouped, many } from "../rules/figures.js";
import { windowsUntil, type Interval, type Window } from "../rules/windows.js";
import { useApi, useMay, useView } from "../state.js";
import { latest } from "../usage.js";

type Found = Schemas["ReportPreview"];

const WINDOWS = 6;
const BODIES = 20;
const ENTRIES_SHOWN = 20;

/** The last windows that ended before the newest event of a type, one of them chosen, and which of
 * its bodies are asked for. `from` is what the windows of the schedule are counted from.
 */
export function useWindows(type: string | undefined, interval: Interval, from?: string) {
  const may = useMay();
  const [at, setAt] = useState(0);
  const [after, next] = useState("");
  const end = useApi(
    ["latest", type],
    () => latest(type ?? ""),
    undefined,
    type !== undefined && may("events:read"),
  );
  const newest = end.data ?? new Date().toISOString();
  const windows = windowsUntil(newest, interval, Date.now(), WINDOWS, from);
  const set = (chosen: number) => {
    next("");
    setAt(chosen);
  };
  return {
    window: windows[at] as Window,
    choice: { windows, at, set },
    page: { size: BODIES, ...(after ? { after } : {}) },
    next,
    known: end.data !== undefined || end.isError || !may("events:read"),
  };
}

/** The windows that a preview can be of, in words. */
export function WindowChoice({
  windows,
  at,
  set,
  error,
}: {
  windows: readonly Window[];
  at: number;
  set: (place: number) => void;
  error?: string | undefined;
}) {
  const { time } = useView();
  return (
    <Select
      label="Window"
      value={String(at)}
      set={(place) => set(Number(place))}
      options={windows.map((one, place) => [
        String(place),
        `${time(one.from, "minute")} – ${time(one.to, "minute")}`,
      ])}
      error={error}
    />
  );
}

/** The exact bodies of a window: how many, what they add up to, and each one as text. */
export function Bodies({ of, next }: { of: Found; next: (after: string) => void }) {
  const [subject, setSubject] = useState("");
  const shown = of.data.find((one) => one.subject === subject) ?? of.data[0];
  return (
    <>
      <div className="figures">
        <Figures of={of.deliveries} words={of.deliveries === 1 ? "delivery" : "deliveries"} />
        <Figures of={of.entries} words={of.entries === 1 ? "entry" : "entries"} />
        <div>
          <b>{grouped(of.total)}</b>
          <span>in all</span>
        </div>
      </div>
      {of.filtered_out > 0 && (
        <p className="muted">
          {many(of.filtered_out, "entry", "entries")} with {grouped(of.total_filtered_out)} in all
          do not pass the filter.
        </p>
      )}
      {of.too_large.length > 0 && (
        <div className="notice bad">
          <p>
            <strong>
              {many(of.too_large.length, "body", "bodies")} would be too large and would fail.
            </strong>{" "}
            {of.too_large[0]?.reason}
          </p>
        </div>
      )}
      {shown === undefined ? (
        <Empty title="Nothing would be sent for this window">
          <p>No subject has usage in it that passes the filter.</p>
        </Empty>
      ) : (
        <>
          <div className="filters">
            <Select
              label="Body for"
              value={shown.subject}
              set={setSubject}
              options={of.data.map((one) => [
                one.subject,
                `${one.subject} (${grouped(String(one.bytes))} bytes)`,
              ])}
            />
            {of.meta.page.next && (
              <button
                type="button"
                className="button"
                onClick={() => next(of.meta.page.next as string)}
              >
                Next {of.data.length} subjects
              </button>
            )}
          </div>
          {shown.body === undefined ? (
            <p className="fault">This body would be too large.</p>
          ) : (
            <>
              <Entries body={shown.body} />
              <Code label="The exact body" text={shown.body} />
            </>
          )}
        </>
      )}
    </>
  );
}

function Figures({ of, words }: { of: number; words: string }) {
  return (
    <div>
      <b>{grouped(String(of))}</b>
      <span>{words}</span>
    </div>
  );
}

/** The entries of a body as a table; the text below it has all of it. */
function Entries({ body }: { body: string }) {
  const { usage } = JSON.parse(body) as Pick<Schemas["ReportMessage"], "usage">;
  return (
    <>
      <Table
        label="Entries of the body"
        rows={usage.slice(0, ENTRIES_SHOWN)}
        id={(one) => JSON.stringify(one.groupBy)}
        columns={[
          {
            head: "Entry",
            cell: (one) =>
              Object.keys(one.groupBy).length === 0 ? "whole subject" : dimensions(one.groupBy),
          },
          { head: "Value", number: true, cell: (one) => grouped(one.valueText) },
        ]}
      />
      {usage.length > ENTRIES_SHOWN && (
        <p className="muted">
          The first {ENTRIES_SHOWN} of {many(usage.length, "entry", "entries")}. The body below has
          all.
        </p>
      )}
    </>
  );
}
