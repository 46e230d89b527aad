import { Button, Dialog, Heading, Modal, ModalOverlay } from "react-aria-components";

import { api, unwrap, type Schemas } from "../api.js";
import { useMeter } from "../meter/meter.js";
import { useApi, useMay, useParam, useView } from "../state.js";
import { grouped, many } from "../rules/figures.js";
import { Answer, Copy, Empty, Facts, Link, Name, State, Table, Time } from "./basics.js";
import { Cells } from "./cells.js";
import { EventName, eventLink } from "./event-name.js";
import { useTrace } from "./trace.js";
import type { Question } from "./why-link.js";

const SIZE = 20;

/** Why a number is what it is: the events behind it, what did not count, and who was told of it. */
export default function WhyPanel({ question, close }: { question: Question; close: () => void }) {
  const { time } = useView();
  const may = useMay();
  return (
    <ModalOverlay
      isOpen
      isDismissable
      onOpenChange={(open) => !open && close()}
      className="overlay"
    >
      <Modal className="panel">
        <Dialog className="panel-inner">
          <div className="card-head">
            <Heading slot="title" level={2}>
              Why {question.value ? grouped(question.value) : "this number"}?
            </Heading>
            <Button className="button small" onPress={close}>
              Close
            </Button>
          </div>
          <Facts
            of={[
              [
                "Meter",
                <Link key="m" href={`/meters/${question.meter}`}>
                  {question.meter}
                </Link>,
              ],
              ["From", time(question.from)],
              ["To", time(question.to)],
              [
                "Subject",
                question.subject === undefined ? "all" : <Name key="s">{question.subject}</Name>,
              ],
              ...Object.entries(question.dimensions ?? {}).map(
                ([name, value]) => [name, <Name key={name}>{value || "(empty)"}</Name>] as const,
              ),
            ]}
          />
          {may("events:read") ? (
            <Behind question={question} />
          ) : (
            <p className="muted">
              To see the events behind it needs the scope <code>events:read</code>.
            </p>
          )}
          {may("usage:read") && may("meters:read") && <Made question={question} />}
          {may("events:read") && <Uncounted question={question} />}
        </Dialog>
      </Modal>
    </ModalOverlay>
  );
}

/** The cells. */
function Made({ question }: { question: Question }) {
  const meter = useMeter(question.meter);
  return <Answer of={meter}>{(found) => <Cells question={question} meter={found} />}</Answer>;
}

function Behind({ question }: { question: Question }) {
  const [after, setAfter] = useParam("why_after");
  const query = {
    from: question.from,
    to: question.to,
    ...(question.subject === undefined ? {} : { subject: question.subject }),
    ...(Object.keys(question.dimensions ?? {}).length > 0
      ? { dimensions: question.dimensions as Record<string, string> }
      : {}),
    page: { size: SIZE, ...(after ? { after } : {}) },
  };
  const found = useApi(["why", question.meter, query], async () =>
    unwrap(
      await api.GET("/api/v3/metering/meters/{meterId}/events", {
        params: { path: { meterId: question.meter }, query },
      }),
    ),
  );
  return (
    <section>
      <h3>Events that count in it</h3>
      <Answer of={found}>
        {({ data, meta, total }) => (
          <>
            {data.length === 0 && <Empty title="No event counts in it" />}
            {total && (
              <p className="row">
                <span>
                  {many(total.events, "event")}, checksum{" "}
                  <code>{total.checksum.slice(0, 16)}…</code>
                </span>
                <Copy text={total.checksum} label="Copy checksum" />
              </p>
            )}
            {data.length > 0 && <Events rows={data} to={question.to} />}
            <div className="pages">
              {after && (
                <button type="button" className="button small" onClick={() => setAfter("")}>
                  First events
                </button>
              )}
              {meta.page.next && (
                <button
                  type="button"
                  className="button small"
                  onClick={() => setAfter(meta.page.next ?? "")}
                >
                  Next {SIZE} events
                </button>
              )}
            </div>
            {total && total.slices.length > 0 && <Slices of={total} />}
            {data[0] && <Reported event={data[0]} meter={question.meter} />}
          </>
        )}
      </Answer>
    </section>
  );
}

function Events({ rows, to }: { rows: readonly Schemas["UsageEvent"][]; to: string }) {
  return (
    <Table
      label="Events behind the number"
      rows={rows}
      id={(row) => row.position}
      columns={[
        {
          head: "Event",
          cell: (row) => (
            <Link href={eventLink(row)}>
              <Name>{row.id}</Name>
            </Link>
          ),
        },
        { head: "Subject", cell: (row) => <Name>{row.subject}</Name> },
        { head: "Time", cell: (row) => <Time at={row.time} /> },
        {
          head: "Received",
          cell: (row) => (
            <>
              <Time at={row.ingested_at} />{" "}
              {Date.parse(row.ingested_at) > Date.parse(to) && (
                <span className="state warn">after the window</span>
              )}
            </>
          ),
        },
      ]}
    />
  );
}

/** The slices of the log that the events were counted in: what an audit recounts. */
function Slices({ of }: { of: Schemas["UsageEventsTotal"] }) {
  return (
    <section>
      <h3>Slices of the log that they were counted in</h3>
      <Table
        label="Slices of the log"
        rows={of.slices}
        id={(one) => one.slice}
        columns={[
          { head: "Slice", cell: (one) => <code>{one.slice}</code> },
          { head: "Stored", cell: (one) => <Time at={one.stored_at} /> },
          { head: "Events", number: true, cell: (one) => grouped(String(one.events)) },
          { head: "Checksum", cell: (one) => <code>{one.checksum}</code> },
        ]}
      />
      {of.slices_total > of.slices.length && (
        <p className="muted">
          The first {of.slices.length} of {many(of.slices_total, "slice")}.
        </p>
      )}
    </section>
  );
}

/** The deliveries that an event was reported in, with their revisions. */
function Reported({ event, meter }: { event: Schemas["UsageEvent"]; meter: string }) {
  const trace = useTrace(event.source, event.id);
  return (
    <section>
      <h3>Deliveries that reported the first of these events</h3>
      <Answer of={trace}>
        {({ deliveries }) => (
          <ReportedEntries
            of={deliveries}
            none={`No sync has reported usage of ${meter} with it yet.`}
          />
        )}
      </Answer>
    </section>
  );
}

export function ReportedEntries({
  of,
  none,
}: {
  /** Undefined where they are not shown to this key. */
  of: readonly Schemas["ReportedEntry"][] | undefined;
  none: string;
}) {
  if (of === undefined)
    return (
      <p className="muted">
        To see them needs the scope <code>reports:read</code>.
      </p>
    );
  if (of.length === 0) return <p className="muted">{none}</p>;
  return (
    <Table
      label="Deliveries that reported it"
      rows={of}
      id={(one) => one.delivery.id + JSON.stringify(one.dimensions)}
      columns={[
        {
          head: "Sync",
          cell: (one) => (
            <Link href={`/deliveries/${one.delivery.id}`}>{one.delivery.report.slug}</Link>
          ),
        },
        {
          head: "Window",
          cell: (one) => (
            <>
              <Time at={one.delivery.from} />{" "}
              <span className="nowrap">
                – <Time at={one.delivery.to} />
              </span>
            </>
          ),
        },
        { head: "Revision", number: true, cell: (one) => one.delivery.revision },
        { head: "Value", number: true, cell: (one) => grouped(one.value) },
        { head: "State", cell: (one) => <State of={one.delivery.state} /> },
      ]}
    />
  );
}

/** Events of the same window that came again, with or without other contents, and did not count. */
function Uncounted({ question }: { question: Question }) {
  const meter = useMeter(question.meter);
  const type = meter.data?.event_type;
  const found = useApi(
    ["uncounted", question, type],
    async () => {
      const filter = {
        type: { eq: type as string },
        time: { gte: question.from, lt: question.to },
        ...(question.subject === undefined ? {} : { subject: { eq: question.subject } }),
        verdict: { oeq: "duplicate,conflict" },
      };
      return unwrap(
        await api.GET("/api/v3/metering/events", {
          params: { query: { filter, page: { size: SIZE } } },
        }),
      );
    },
    undefined,
    type !== undefined,
  );
  if (type === undefined && meter.error) return null; // of which type they are is not known
  return (
    <section>
      <h3>Events that did not count in it, because they came before</h3>
      <Answer of={found}>
        {({ data, meta }) =>
          data.length === 0 ? (
            <p className="muted">None: no event of this window came twice.</p>
          ) : (
            <>
              <Table
                label="Events that did not count"
                rows={data}
                id={(one) => one.position}
                columns={[
                  {
                    head: "Event",
                    cell: (one) => <EventName event={one.event} />,
                  },
                  { head: "Verdict", cell: (one) => <State of={one.verdict.kind} /> },
                  { head: "Received", cell: (one) => <Time at={one.ingested_at} /> },
                ]}
              />
              {meta.page.next && (
                <p className="muted">There are more: search the events by verdict.</p>
              )}
            </>
          )
        }
      </Answer>
    </section>
  );
}
