import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useLocation, useParams } from "wouter";

import { api, unwrap, type Schemas } from "../api.js";
import { FormDialog } from "../forms/dialog.js";
import { Field, Select } from "../forms/fields.js";
import { faultAt } from "../forms/faults.js";
import {
  Answer,
  Card,
  CursorPages,
  Empty,
  Facts,
  Link,
  Name,
  Page,
  State,
  Table,
  Time,
} from "../parts/basics.js";
import { Difference } from "../parts/difference.js";
import { grouped, many } from "../rules/figures.js";
import { LIVE_MS, setParams, useApi, useMay, useParam } from "../state.js";
import { useMeter } from "./meter.js";

type Meter = Schemas["Meter"];
type Revision = Schemas["MeterRevision"];

/** A revision beside the one in force: what is defined otherwise, what each subject would have. */
export default function RevisionPage() {
  const { key = "", revision = "" } = useParams<{ key: string; revision: string }>();
  const meter = useMeter(key);
  const path = { meterId: key, revision };
  const one = useApi(
    ["revisions", key, revision],
    async () =>
      unwrap(
        await api.GET("/api/v3/metering/meters/{meterId}/revisions/{revision}", {
          params: { path },
        }),
      ),
    LIVE_MS,
  );
  return (
    <Answer of={meter} page={key} all={<Link href="/meters">All meters</Link>}>
      {(found) => (
        <Page
          title={
            <>
              Revision {revision} of <Name>{found.name}</Name>
            </>
          }
          aside={<Link href={`/meters/${key}`}>Back to the meter</Link>}
        >
          <Answer of={one}>{(it) => <Both meter={found} revision={it} />}</Answer>
        </Page>
      )}
    </Answer>
  );
}

function waits(one: Revision): boolean {
  return one.state === "proposed" || one.state === "filling";
}

function Both({ meter, revision }: { meter: Meter; revision: Revision }) {
  const may = useMay();
  const { progress } = revision;
  return (
    <div className="stack">
      <Card
        title="How it stands"
        aside={
          may("meters:write") &&
          !meter.from_settings &&
          waits(revision) && (
            <div className="row">
              <Discard meter={meter} revision={revision} />
              {revision.state === "proposed" && <Switch meter={meter} revision={revision} />}
            </div>
          )
        }
      >
        <Facts
          of={[
            ["State", <State key="s" of={revision.state} />],
            ["In force", `revision ${meter.revision}`],
            ["Proposed", <Time key="c" at={revision.created_at} />],
            [
              "Filled in",
              progress === undefined
                ? "not any more"
                : progress.complete_until == null
                  ? `${many(progress.slices_left, "slice")} of the log left`
                  : "yes",
            ],
          ]}
        />
        {revision.state === "filling" && (
          <p className="muted" role="status">
            It takes over as soon as it is filled in. This page shows it by itself.
          </p>
        )}
        {revision.state === "in_force" && (
          <div className="notice good" role="status">
            <p>
              <strong>This revision is in force.</strong> Queries and reports answer by it.
            </p>
          </div>
        )}
      </Card>
      {revision.state !== "in_force" && <Definitions meter={meter} revision={revision} />}
      {waits(revision) && revision.counted && <Comparison meter={meter} revision={revision} />}
    </div>
  );
}

/** What the two define, row by row; what differs is marked. */
function Definitions({ meter, revision }: { meter: Meter; revision: Revision }) {
  const rows: [string, string | undefined, string | undefined][] = [
    ["Type of the events", meter.event_type, revision.event_type],
    ["Path to the value", meter.value_property, revision.value_property],
  ];
  const names = new Set([...Object.keys(meter.dimensions), ...Object.keys(revision.dimensions)]);
  for (const name of [...names].sort())
    rows.push([`Dimension ${name}`, meter.dimensions[name], revision.dimensions[name]]);
  return (
    <Card title="What it defines">
      <Table
        label="Definitions"
        rows={rows}
        id={([name]) => name}
        columns={[
          { head: "Part", cell: ([name]) => name },
          {
            head: `In force (${meter.revision})`,
            cell: ([, old, now]) => <Text of={old} tone={old === now ? "" : "was"} />,
          },
          {
            head: `Revision ${revision.revision}`,
            cell: ([, old, now]) => <Text of={now} tone={old === now ? "" : "becomes"} />,
          },
        ]}
      />
    </Card>
  );
}

function Text({ of, tone }: { of: string | undefined; tone: string }) {
  if (of === undefined) return <span className="muted">none</span>;
  return <code className={tone}>{of}</code>;
}

function Comparison({ meter, revision }: { meter: Meter; revision: Revision }) {
  const may = useMay();
  const [equal] = useParam("equal");
  const [after] = useParam("after");
  // What was compared while it was being filled in is asked for again, also once after it is done.
  const filled = revision.progress?.complete_until != null;
  const found = useApi(
    ["revisions", meter.key, "comparison", revision.revision, equal, after, filled],
    async () =>
      unwrap(
        await api.GET("/api/v3/metering/meters/{meterId}/revisions/{revision}/comparison", {
          params: {
            path: { meterId: meter.id, revision: String(revision.revision) },
            query: {
              page: { size: 25, ...(after ? { after } : {}) },
              ...(equal ? { include_equal: true } : {}),
            },
          },
        }),
      ),
    filled ? undefined : LIVE_MS,
    may("usage:read"),
  );
  if (!may("usage:read"))
    return (
      <Card title="Subject by subject">
        <p className="muted">
          A comparison needs the scope <code>usage:read</code>.
        </p>
      </Card>
    );
  return (
    <Card
      title="Subject by subject"
      aside={
        <label className="box">
          <input
            type="checkbox"
            checked={equal !== ""}
            onChange={(event) => setParams({ equal: event.target.checked ? "yes" : "", after: "" })}
          />
          <span>Also those that do not differ</span>
        </label>
      }
    >
      <Answer of={found}>
        {(both) => (
          <div className="form">
            <p>
              {both.differing === 0
                ? `None of ${many(both.subjects, "subject")} differs.`
                : `${grouped(String(both.differing))} of ${many(both.subjects, "subject")} ${both.differing === 1 ? "differs" : "differ"}.`}{" "}
              {both.progress.complete_until == null && (
                <span className="state warn">not filled in yet: it may still change</span>
              )}
            </p>
            {both.data.length === 0 ? (
              <Empty title="Nothing differs" />
            ) : (
              <Table
                label="Subjects of both revisions"
                rows={both.data}
                id={(one) => one.subject}
                columns={[
                  { head: "Subject", cell: (one) => <Name>{one.subject}</Name> },
                  {
                    head: `In force (${both.in_force})`,
                    number: true,
                    cell: (one) => <Side value={one.value_before} />,
                  },
                  {
                    head: `Revision ${both.revision}`,
                    number: true,
                    cell: (one) => <Side value={one.value_after} />,
                  },
                  {
                    head: "Difference",
                    number: true,
                    cell: (one) => <Difference of={one.difference} />,
                  },
                  {
                    head: "Events counted",
                    number: true,
                    cell: (one) => <Change of={one.counted_before} to={one.counted_after} />,
                  },
                  {
                    head: "Rejected",
                    number: true,
                    cell: (one) => <Change of={one.rejected_before} to={one.rejected_after} />,
                  },
                ]}
              />
            )}
            <CursorPages next={both.meta.page.next} />
          </div>
        )}
      </Answer>
    </Card>
  );
}

function Side({ value }: { value: string | null }) {
  return value === null ? <span className="muted">nothing</span> : grouped(value);
}

function Change({ of, to }: { of: number; to: number }) {
  if (of === to) return grouped(String(of));
  return `${grouped(String(of))} → ${grouped(String(to))}`;
}

function Switch({ meter, revision }: { meter: Meter; revision: Revision }) {
  const client = useQueryClient();
  const [from, setFrom] = useState("all");
  const [at, setAt] = useState("");
  const act = async () => {
    const body = from === "all" ? {} : { effective_from: `${at}:00Z` };
    const path = { meterId: meter.id, revision: String(revision.revision) };
    unwrap(
      await api.POST("/api/v3/metering/meters/{meterId}/revisions/{revision}/switch", {
        params: { path },
        body,
      }),
    );
    // The comparison is not asked for again: with itself the one in force cannot be compared.
    await client.invalidateQueries({
      queryKey: ["revisions", meter.key, String(revision.revision)],
    });
    await client.invalidateQueries({ queryKey: ["meters"] });
  };
  return (
    <FormDialog
      open="Switch to it"
      title={`Switch ${meter.name} to revision ${revision.revision}?`}
      submit="Switch"
      act={act}
      fields={["effective_from"]}
    >
      {(faults) => (
        <>
          <p>
            Queries and reports then answer by it. Runs that are final stay as they are; what they
            would say now is shown as corrections.
          </p>
          <Select
            label="For usage"
            value={from}
            set={setFrom}
            options={[
              ["all", "of all times"],
              ["since", "from an instant on; earlier usage stays as it is"],
            ]}
          />
          {from === "since" && (
            <Field
              label="First instant, in UTC"
              type="datetime-local"
              value={at}
              set={setAt}
              error={faultAt(faults, "effective_from")}
              needed
            />
          )}
        </>
      )}
    </FormDialog>
  );
}

function Discard({ meter, revision }: { meter: Meter; revision: Revision }) {
  const [, navigate] = useLocation();
  const client = useQueryClient();
  const discard = useMutation({
    mutationFn: async () => {
      const path = { meterId: meter.id, revision: String(revision.revision) };
      unwrap(
        await api.DELETE("/api/v3/metering/meters/{meterId}/revisions/{revision}", {
          params: { path },
        }),
      );
      await client.invalidateQueries({ queryKey: ["meters"] });
      navigate(`/meters/${meter.key}`);
    },
  });
  return (
    <FormDialog
      open="Discard it"
      title={`Discard revision ${revision.revision}?`}
      submit="Discard"
      act={() => discard.mutateAsync()}
      danger
    >
      {() => <p>The meter stays as it is. You can propose another revision at any time.</p>}
    </FormDialog>
  );
}
