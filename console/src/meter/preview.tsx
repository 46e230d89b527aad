import { useState } from "react";

import { api, unwrap, type Schemas } from "../api.js";
import { Select } from "../forms/fields.js";
import { faultsOf, type Faults } from "../forms/faults.js";
import { useStill } from "../forms/still.js";
import { Card, Code, Empty, Failure, Loading, Name, Table } from "../parts/basics.js";
import { EventName } from "../parts/event-name.js";
import { measured, previewable, repeated, type Definition } from "../rules/draft.js";
import { printed } from "../rules/exact.js";
import { dimensions, grouped, many } from "../rules/figures.js";
import { isSpan, SPANS, type Span } from "../rules/range.js";
import { useApi, useMay } from "../state.js";
import { latest, spanUntil } from "../usage.js";
import type { Sample } from "./samples.js";

type Found = Schemas["Preview"];
const ROWS_SHOWN = 12;

/** What a definition would make of the newest events of its type. */
export function usePreview(definition: Definition) {
  const may = useMay();
  const [span, setSpan] = useState<Span>("30d");
  const still = useStill(definition);
  const ready = previewable(still) && repeated(still.dimensions).size === 0;
  const meter = measured(still);
  const found = useApi(
    ["preview", "meter", meter, span],
    async () => {
      const end = may("events:read") ? await latest(meter.event_type) : new Date().toISOString();
      const range = spanUntil(end, span, span === "3h" ? "PT1M" : "PT1H", "UTC");
      const group_by_dimensions = Object.keys(meter.dimensions);
      const body = { meter, ...range, group_by_dimensions };
      return unwrap(await api.POST("/api/v3/metering/meter-preview", { body }));
    },
    undefined,
    ready && may("usage:read"),
  );
  const faults: Faults = ready ? faultsOf(found.error, "meter.") : new Map();
  return { found, faults, span, setSpan, ready, definition: still };
}

/** The preview beside a form. */
export function Preview({
  of: { found, faults, span, setSpan, ready, definition },
  sample,
}: {
  of: ReturnType<typeof usePreview>;
  sample: Sample | undefined;
}) {
  const may = useMay();
  return (
    <>
      <Card title="What it makes of recent events">
        {!may("usage:read") ? (
          <p className="muted">
            A preview needs the scope <code>usage:read</code>.
          </p>
        ) : (
          <>
            <div className="filters">
              <Select
                label="Events of the last"
                value={span}
                set={(name) => isSpan(name) && setSpan(name)}
                options={(["3h", "24h", "7d", "30d"] as const).map((name) => [
                  name,
                  SPANS[name].words,
                ])}
                error={faults.get("from")}
              />
            </div>
            {!ready ? (
              <Empty title="Nothing to show yet">
                <p>Write the type of the events and the path to the value.</p>
              </Empty>
            ) : found.error ? (
              faults.size > 0 ? (
                <p className="fault">The preview waits: a field says what is wrong.</p>
              ) : (
                <Failure error={found.error} retry={() => void found.refetch()} />
              )
            ) : found.data === undefined ? (
              <Loading />
            ) : (
              <div className={`form${found.isPlaceholderData ? " stale" : ""}`} aria-live="polite">
                <Outcome of={found.data} definition={definition} />
              </div>
            )}
          </>
        )}
      </Card>
      {sample?.event && (
        <Card title="The newest event of this type">
          <Code label="The newest event" text={printed(sample.event, 2)} />
        </Card>
      )}
    </>
  );
}

function Outcome({ of, definition }: { of: Found; definition: Definition }) {
  const empty = definition.dimensions.filter(
    ({ name }) => name !== "" && of.data.every((row) => (row.dimensions[name] ?? "") === ""),
  );
  return (
    <>
      <div className="figures">
        <Count of={of.matched} words="events match" tone={of.matched === 0 ? "bad" : ""} />
        <Count of={of.counted} words="count" tone={of.counted > 0 ? "good" : ""} />
        <Count of={of.rejected} words="rejected" tone={of.rejected > 0 ? "bad" : ""} />
      </div>
      {of.matched === 0 && (
        <div className="notice warn">
          <p>
            <strong>No event has the type {definition.eventType}.</strong> Check its spelling, or
            take a longer span. You can make the meter before its events come.
          </p>
        </div>
      )}
      {of.matched > 0 && of.counted === 0 && (
        <div className="notice bad">
          <p>
            <strong>
              None of these events has a usable value at <code>{definition.value}</code>.
            </strong>{" "}
            Compare the path with the event below.
          </p>
        </div>
      )}
      {of.counted > 0 &&
        empty.map(({ name, path }) => (
          <div className="notice warn" key={name}>
            <p>
              <strong>
                No event has a value for dimension {name} at <code>{path}</code>.
              </strong>{" "}
              All usage would be under an empty {name}.
            </p>
          </div>
        ))}
      {of.data.length > 0 && <Rows of={of.data} />}
      {of.rejected_examples.length > 0 && (
        <Table
          label="Rejected values of the preview"
          rows={of.rejected_examples}
          id={(one) => one.position}
          columns={[
            { head: "Rejected event", cell: (one) => <EventName event={one} /> },
            { head: "Reason", cell: (one) => one.reason.replaceAll("_", " ") },
            {
              head: "Value",
              cell: (one) => (
                <code>
                  <Name>{one.value}</Name>
                </code>
              ),
            },
          ]}
        />
      )}
    </>
  );
}

function Count({ of, words, tone }: { of: number; words: string; tone: string }) {
  return (
    <div className={tone}>
      <b>{grouped(String(of))}</b>
      <span>{words}</span>
    </div>
  );
}

function Rows({ of }: { of: Found["data"] }) {
  const most = of.toSorted((one, other) => Number(other.value) - Number(one.value));
  return (
    <>
      <Table
        label="Usage of the preview"
        rows={most.slice(0, ROWS_SHOWN)}
        id={(row) => JSON.stringify(row.dimensions)}
        columns={[
          { head: "Dimensions", cell: (row) => <Name>{dimensions(row.dimensions)}</Name> },
          { head: "Usage", number: true, cell: (row) => grouped(row.value) },
        ]}
      />
      {of.length > ROWS_SHOWN && (
        <p className="muted">And {many(of.length - ROWS_SHOWN, "more group")}.</p>
      )}
    </>
  );
}
