import type { Schemas } from "../api.js";
import { dimensions, grouped, many } from "../rules/figures.js";
import { cellsOf, GRANULARITY_WORDS } from "../rules/range.js";
import { useApi } from "../state.js";
import { usage } from "../usage.js";
import { Answer, Empty, Name, Table, Time } from "./basics.js";
import { Why, questionOf, type Question } from "./why-link.js";

type Meter = Schemas["Meter"];
const SHOWN = 20;

/** The cells that a value is made of, each of them a value that can be asked for in turn. They are read
 * from the tallies, the events from what was stored of them: so the two lists check each other. */
export function Cells({ question, meter }: { question: Question; meter: Meter }) {
  const granularity = cellsOf(question);
  const names = Object.keys(meter.dimensions);
  const filters = {
    ...(question.subject === undefined ? {} : { subject: { eq: question.subject } }),
    ...Object.fromEntries(
      Object.entries(question.dimensions ?? {})
        .filter(([name]) => names.includes(name))
        .map(([name, value]) => [name, { eq: value }]),
    ),
  };
  const query: Schemas["QueryRequest"] = {
    from: question.from,
    to: question.to,
    granularity,
    time_zone: "UTC",
    // Without a subject they are sums over all subjects: of those there may be a million.
    group_by_dimensions: question.subject === undefined ? names : ["subject", ...names],
    ...(Object.keys(filters).length === 0 ? {} : { filters: { dimensions: filters } }),
  };
  const told = query.group_by_dimensions?.some((name) => !Object.hasOwn(filters, name)) ?? false;
  const found = useApi(["usage", question.meter, "cells", query], () =>
    usage(question.meter, query),
  );
  return (
    <section>
      <h3>Cells that it is made of, by {GRANULARITY_WORDS[granularity]}</h3>
      <Answer of={found}>
        {({ data }) =>
          data.length === 0 ? (
            <Empty title="No cell has a value in it" />
          ) : (
            <>
              <p>
                {many(data.length, "cell")} with {many(counted(data), "counted event")}
                {rejected(data) > 0 && <> and {many(rejected(data), "rejected value")}</>}.
              </p>
              <Table
                label="Cells of the number"
                rows={data.slice(0, SHOWN)}
                id={(row) => row.from + JSON.stringify(row.dimensions)}
                columns={[
                  { head: "From", cell: (row) => <Time at={row.from} /> },
                  ...(told
                    ? [
                        {
                          head: "Cell",
                          cell: (row: Schemas["UsageRow"]) => (
                            <Name>{dimensions(without(row.dimensions, filters))}</Name>
                          ),
                        },
                      ]
                    : []),
                  {
                    head: "Events",
                    number: true,
                    cell: (row) => grouped(String(row.counted)),
                  },
                  {
                    head: "Value",
                    number: true,
                    cell: (row) => (
                      <Why question={questionOf(question.meter, row, question.subject)}>
                        {grouped(row.value)}
                      </Why>
                    ),
                  },
                ]}
              />
              {data.length > SHOWN && (
                <p className="muted">
                  The first {SHOWN} of {grouped(String(data.length))}: ask for a shorter window to
                  see others.
                </p>
              )}
            </>
          )
        }
      </Answer>
    </section>
  );
}

/** The dimensions that a question does not say already. */
function without(dimensions: Readonly<Record<string, string>>, said: object) {
  return Object.fromEntries(
    Object.entries(dimensions).filter(([name]) => !Object.hasOwn(said, name)),
  );
}

function counted(rows: Schemas["QueryResult"]["data"]): number {
  return rows.reduce((sum, row) => sum + row.counted, 0);
}

function rejected(rows: Schemas["QueryResult"]["data"]): number {
  return rows.reduce((sum, row) => sum + row.rejected, 0);
}
