import { api, unwrap, type Schemas } from "../api.js";
import {
  Answer,
  Card,
  Choice,
  Code,
  CursorPages,
  Empty,
  EmptyPage,
  KeptFrom,
  Name,
  Page,
  State,
  Table,
  TextFilter,
  Time,
} from "../parts/basics.js";
import { EventName } from "../parts/event-name.js";
import { posting } from "../rules/snippets.js";
import { LIVE_MS, setParams, useApi, useKeyed, useParam } from "../state.js";

const EVENT_TYPE = "application/cloudevents+json";
const VERDICTS = ["new", "duplicate", "conflict", "invalid"] as const;

export default function Events() {
  const [id] = useParam("id");
  const [subject] = useParam("subject");
  const [type] = useParam("type");
  const [source] = useParam("source");
  const [verdict] = useParam("verdict");
  const [since] = useParam("since");
  const [until] = useParam("until");
  const [sort] = useParam("sort", "ingested_at");
  const [live] = useParam("live");
  const [after] = useParam("after");
  const filter = {
    ...(id ? { id: { contains: id } } : {}),
    ...(subject ? { subject: { eq: subject } } : {}),
    ...(type ? { type: { eq: type } } : {}),
    ...(source ? { source: { eq: source } } : {}),
    verdict: verdict ? { eq: verdict as (typeof VERDICTS)[number] } : { oeq: VERDICTS.join(",") },
    ...(since || until
      ? {
          time: {
            ...(since ? { gte: `${since}:00Z` } : {}),
            ...(until ? { lt: `${until}:00Z` } : {}),
          },
        }
      : {}),
  };
  const events = useApi(
    ["events", filter, sort, after],
    async () =>
      unwrap(
        await api.GET("/api/v3/metering/events", {
          params: { query: { filter, sort, page: { size: 50, ...(after ? { after } : {}) } } },
        }),
      ),
    live === "1" && after === "" ? LIVE_MS : undefined,
  );
  const to = (name: string) => (value: string) => setParams({ [name]: value, after: "" });
  return (
    <Page title="Events">
      <div className="filters">
        <TextFilter label="Id contains" value={id} set={to("id")} />
        <TextFilter label="Subject" value={subject} set={to("subject")} />
        <TextFilter label="Type" value={type} set={to("type")} />
        <TextFilter label="Source" value={source} set={to("source")} />
        <Choice
          label="Verdict"
          value={verdict}
          set={to("verdict")}
          options={[["", "any"], ...VERDICTS.map((one) => [one, one] as const)]}
        />
        <TextFilter label="From (UTC)" type="datetime-local" value={since} set={to("since")} />
        <TextFilter label="Until (UTC)" type="datetime-local" value={until} set={to("until")} />
        <Choice
          label="Latest by"
          value={sort}
          set={to("sort")}
          options={[
            ["ingested_at", "when received"],
            ["time", "their own time"],
          ]}
        />
        <Choice
          label="Live"
          value={live}
          set={to("live")}
          options={[
            ["", "off"],
            ["1", "every 3 seconds"],
          ]}
        />
      </div>
      <Answer of={events}>
        {({ data, meta }) =>
          data.length === 0 ? (
            <EmptyPage next={meta.page.next} keptFrom={meta.kept_from}>
              <None
                filtered={Boolean(id || subject || type || source || verdict || since || until)}
              />
            </EmptyPage>
          ) : (
            <>
              <Card title="The latest first">
                <Table
                  label="Events"
                  rows={data}
                  id={(one) => one.position}
                  columns={[
                    {
                      head: "Event",
                      cell: (one) => <EventName event={one.event} text={one.text} />,
                    },
                    { head: "Verdict", cell: (one) => <State of={one.verdict.kind} /> },
                    {
                      head: "Subject",
                      cell: (one) => (one.event ? <Name>{one.event.subject}</Name> : ""),
                    },
                    {
                      head: "Type",
                      cell: (one) => (one.event ? <Name>{one.event.type}</Name> : ""),
                    },
                    {
                      head: "Time",
                      cell: (one) => (one.event?.time ? <Time at={one.event.time} /> : ""),
                    },
                    { head: "Received", cell: (one) => <Time at={one.ingested_at} /> },
                    {
                      head: "Why",
                      cell: (one) => <div className="words">{why(one.verdict)}</div>,
                    },
                  ]}
                />
              </Card>
              <CursorPages next={meta.page.next} />
              <KeptFrom at={meta.kept_from} />
            </>
          )
        }
      </Answer>
    </Page>
  );
}

/** Why an event does not count, or counts nowhere, in few words; its page says all. */
function why(verdict: Schemas["ListedEvent"]["verdict"]): string {
  const { kind, of, meters, reason } = verdict;
  if (of?.differs && of.differs.length > 0)
    return `differs from the first in ${of.differs.join(", ")}`;
  if (kind === "new" && meters?.length === 0) return "matches no meter";
  return reason ?? "";
}

function None({ filtered }: { filtered: boolean }) {
  const keyed = useKeyed();
  if (filtered)
    return (
      <Empty title="No event is like that">
        Subject, type and source are compared whole; of the id a part is enough.
      </Empty>
    );
  const event = {
    specversion: "1.0",
    id: "r-1",
    source: "chat-api",
    type: "completion",
    subject: "acme",
    data: { tokens: 1250, model: "large" },
  };
  return (
    <Empty title="No event yet">
      <p>Send one; it is listed within seconds.</p>
      <Code
        label="Command that sends an event"
        text={posting(`${location.origin}/api/v3/metering/events`, event, keyed, EVENT_TYPE)}
      />
    </Empty>
  );
}
