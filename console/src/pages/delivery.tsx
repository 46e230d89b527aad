import { useMemo } from "react";
import { useParams } from "wouter";
import { useQueryClient } from "@tanstack/react-query";

import { API, api, text, unwrap, type Schemas } from "../api.js";
import { Ask } from "../parts/ask.js";
import {
  Answer,
  Card,
  Code,
  Copy,
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
import { dimensions, grouped, many } from "../rules/figures.js";
import { keyHeader } from "../rules/snippets.js";
import { SLOW_MS, useApi, useKeyed, useMay } from "../state.js";

export default function DeliveryPage() {
  const { id = "" } = useParams<{ id: string }>();
  const delivery = useApi(
    ["delivery", id],
    async () =>
      unwrap(
        await api.GET("/api/v3/metering/deliveries/{deliveryId}", {
          params: { path: { deliveryId: id } },
        }),
      ),
    SLOW_MS,
  );
  return (
    <Answer of={delivery} page="Delivery" all={<Link href="/syncs">All syncs</Link>}>
      {(found) => <One delivery={found} />}
    </Answer>
  );
}

function One({ delivery }: { delivery: Schemas["DeliveryWithAttempts"] }) {
  const may = useMay();
  const client = useQueryClient();
  const replay = async () => {
    unwrap(
      await api.POST("/api/v3/metering/deliveries/{deliveryId}/replay", {
        params: { path: { deliveryId: delivery.id } },
      }),
    );
    await client.invalidateQueries({ queryKey: ["delivery", delivery.id] });
  };
  const ended = ["delivered", "failed", "cancelled"].includes(delivery.state);
  return (
    <Page
      title={
        <>
          Delivery to <Name>{delivery.subject}</Name>
        </>
      }
      aside={
        may("reports:write") &&
        ended &&
        delivery.failure === undefined && (
          <Ask
            open="Replay"
            title="Send this delivery again?"
            words="One delivery is sent again, with the same bytes and the same id."
            acts={[["Send it again", replay]]}
          />
        )
      }
    >
      <Card title="How it stands">
        <Facts
          of={[
            ["State", <State key="s" of={delivery.state} />],
            [
              "Sync",
              <Link key="r" href={`/syncs/${encodeURIComponent(delivery.report.slug)}`}>
                {delivery.report.slug}
              </Link>,
            ],
            [
              "Subject",
              <Link key="u" href={`/subject?key=${encodeURIComponent(delivery.subject)}`}>
                <Name>{delivery.subject}</Name>
              </Link>,
            ],
            ["From", <Time key="f" at={delivery.from} />],
            ["To", <Time key="t" at={delivery.to} />],
            ["Revision", delivery.revision],
            ...(delivery.next_attempt_at === undefined
              ? []
              : [["Next attempt", <Time key="n" at={delivery.next_attempt_at} ago />] as const]),
            ...(delivery.failure === undefined
              ? []
              : [["Why it could not be made", delivery.failure] as const]),
            [
              "Id",
              <span key="i" className="row long">
                <code>{delivery.id}</code> <Copy text={delivery.id} />
              </span>,
            ],
            [
              delivery.failure === undefined ? "Digest of the body" : "Digest of the reason",
              <code key="d" className="long">
                {delivery.digest}
              </code>,
            ],
          ]}
        />
      </Card>
      <Attempts of={delivery.attempts} />
      {delivery.failure === undefined && <Body delivery={delivery} />}
    </Page>
  );
}

function Attempts({ of }: { of: readonly Schemas["Attempt"][] }) {
  return (
    <Card title={`Attempts: ${of.length}`}>
      {of.length === 0 ? (
        <Empty title="Nothing was sent yet" />
      ) : (
        <Table
          label="Attempts"
          rows={of}
          id={(one) => String(one.number)}
          columns={[
            { head: "No.", cell: (one) => one.number },
            { head: "Started", cell: (one) => <Time at={one.started_at} /> },
            { head: "Sent to", cell: (one) => <Name>{one.url ?? ""}</Name> },
            { head: "Outcome", cell: (one) => <State of={one.outcome} /> },
            { head: "Status", cell: (one) => one.status ?? <span className="muted">none</span> },
            { head: "Took", number: true, cell: (one) => `${grouped(String(one.duration_ms))} ms` },
            { head: "Reason", cell: (one) => <div className="words">{one.reason}</div> },
            {
              head: "Answer",
              cell: (one) =>
                one.answer ? (
                  <code>
                    <Name>{one.answer}</Name>
                  </code>
                ) : (
                  ""
                ),
            },
          ]}
        />
      )}
    </Card>
  );
}

const ENTRIES_SHOWN = 200;

/** What of a body is needed to ask why. */
type Sent = Pick<Schemas["ReportMessage"], "usage" | "meter">;

function Body({ delivery }: { delivery: Schemas["Delivery"] }) {
  const body = useApi(["body", delivery.id, delivery.digest], () =>
    text(`${API}/deliveries/${delivery.id}/body`),
  );
  const sent = useMemo(() => read(body.data), [body.data]);
  const keyed = useKeyed();
  return (
    <>
      {sent && (
        <Card title={`What it says: ${many(sent.usage.length, "entry", "entries")}`}>
          <Table
            label="Entries"
            bounded
            rows={sent.usage.slice(0, ENTRIES_SHOWN)}
            id={(one) => one.windowStart + JSON.stringify(one.groupBy)}
            columns={[
              {
                head: "Dimensions",
                cell: (one) => <Name>{dimensions(one.groupBy)}</Name>,
              },
              {
                head: "Value",
                number: true,
                cell: (one) => (
                  <Why
                    question={{
                      meter: sent.meter.slug,
                      from: one.windowStart,
                      to: one.windowEnd,
                      subject: one.subject,
                      dimensions: one.groupBy,
                      value: one.valueText,
                    }}
                  >
                    {grouped(one.valueText)}
                  </Why>
                ),
              },
            ]}
          />
          {sent.usage.length > ENTRIES_SHOWN && (
            <p className="muted">The first {ENTRIES_SHOWN}. The body below has all.</p>
          )}
        </Card>
      )}
      <Card title="The body, byte by byte as it is sent">
        <Answer of={body}>{(bytes) => <Code label="Body" text={bytes} />}</Answer>
      </Card>
      <Card title="Verify it">
        <p>
          Compute the digest of the body yourself (BLAKE2b, 256 bits). It has to be equal to the
          second line:
        </p>
        <Code
          label="Command that computes the digest"
          text={`curl -s ${location.origin}${API}/deliveries/${delivery.id}/body${keyHeader(keyed)} | b2sum -l 256\n# ${delivery.digest}`}
        />
      </Card>
    </>
  );
}

function read(body: string | undefined): Sent | undefined {
  try {
    const found = body === undefined ? undefined : (JSON.parse(body) as Sent);
    return Array.isArray(found?.usage) && typeof found.meter?.slug === "string" ? found : undefined;
  } catch {
    return undefined; // the bytes are shown as they are
  }
}
