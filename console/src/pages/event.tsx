import type { Schemas } from "../api.js";
import {
  Answer,
  Card,
  Code,
  Empty,
  Facts,
  Link,
  Name,
  Page,
  State,
  Table,
  Time,
} from "../parts/basics.js";
import { Why } from "../parts/why-link.js";
import { ReportedEntries } from "../parts/why.js";
import { useTrace } from "../parts/trace.js";
import { printed } from "../rules/exact.js";
import { dimensions } from "../rules/figures.js";
import { LIVE_MS, useParam } from "../state.js";

type Listed = Schemas["ListedEvent"];

/** One event and its copies: what was decided, what it counts in, who was told. */
export default function EventPage() {
  const [source] = useParam("source");
  const [id] = useParam("id");
  const trace = useTrace(source, id, 5 * LIVE_MS);
  return (
    <Page
      title={
        <>
          Event <Name>{id}</Name>
        </>
      }
      aside={<Link href="/events">All events</Link>}
    >
      <Answer of={trace}>
        {({ events, deliveries }) =>
          events.length === 0 ? (
            <Empty title="There is no such event">
              It may not be counted yet: wait a few seconds. Or it is older than what is kept.
            </Empty>
          ) : (
            <>
              {events.map((one) => (
                <Copied key={one.position} event={one} />
              ))}
              <Card title="Deliveries that reported it">
                <ReportedEntries of={deliveries} none="No sync has reported it yet." />
              </Card>
            </>
          )
        }
      </Answer>
    </Page>
  );
}

function Copied({ event: { event, ingested_at, position, verdict } }: { event: Listed }) {
  return (
    <Card
      title={verdict.kind === "new" ? "The event that counts" : "A copy that does not count"}
      aside={<State of={verdict.kind} />}
    >
      <Facts
        of={[
          [
            "Subject",
            event ? (
              <Link key="s" href={`/subject?key=${encodeURIComponent(event.subject)}`}>
                <Name>{event.subject}</Name>
              </Link>
            ) : (
              ""
            ),
          ],
          ["Type", event ? <Name key="t">{event.type}</Name> : ""],
          ["Source", event ? <Name key="o">{event.source}</Name> : ""],
          ["Time", event ? timeOf(event) : ""],
          ["Received", <Time key="r" at={ingested_at} />],
          ["Position in the log", <code key="p">{position}</code>],
          ...(verdict.reason ? [["Why", verdict.reason] as const] : []),
          ...(verdict.of?.differs
            ? [["Differs from the first in", verdict.of.differs.join(", ")] as const]
            : []),
        ]}
      />
      {event && <Code label="The event" text={printed(event, 2)} />}
      {verdict.kind === "new" && (
        <Meters verdicts={verdict.meters ?? []} subject={event?.subject} />
      )}
    </Card>
  );
}

/** When it counts: an event that does not say it counts when it was received. */
function timeOf(event: Schemas["Event"]) {
  return event.time ? <Time at={event.time} /> : "when it was received";
}

function Meters({
  verdicts,
  subject,
}: {
  verdicts: readonly Schemas["MeterVerdict"][];
  subject: string | undefined;
}) {
  if (verdicts.length === 0)
    return (
      <Empty title="No meter selects its type">
        It counts as soon as one does, also afterwards.
      </Empty>
    );
  return (
    <Table
      label="Meters"
      rows={verdicts}
      id={(one) => one.id}
      columns={[
        { head: "Meter", cell: (one) => <Link href={`/meters/${one.key}`}>{one.key}</Link> },
        {
          head: "Outcome",
          cell: (one) => (
            <>
              <State of={one.outcome} /> {one.reason?.replaceAll("_", " ")}{" "}
              {one.value !== undefined && (
                <code>
                  <Name>{one.value}</Name>
                </code>
              )}
            </>
          ),
        },
        {
          head: "Dimensions",
          cell: (one) => <Name>{dimensions(one.dimensions)}</Name>,
        },
        {
          head: "In the minute",
          cell: (one) => (
            <Why
              question={{
                meter: one.key,
                from: one.from,
                to: one.to,
                subject,
                dimensions: one.dimensions,
              }}
            >
              <Time at={one.from} />
            </Why>
          ),
        },
      ]}
    />
  );
}
