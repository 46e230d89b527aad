import { api, unwrap, type Schemas } from "../api.js";
import {
  Answer,
  Card,
  CursorPages,
  Empty,
  Link,
  Name,
  NumberPages,
  Page,
  Table,
} from "../parts/basics.js";
import { DeliveryTable } from "../parts/delivery-table.js";
import { useCameIntoView } from "../parts/in-view.js";
import { Why } from "../parts/why-link.js";
import { grouped } from "../rules/figures.js";
import { useApi, useMay, useParam } from "../state.js";
import { Erase, Erased } from "../subject/erasures.js";
import { usage } from "../usage.js";

/** All of one subject: its usage of every meter, its deliveries, its events. */
export default function SubjectPage() {
  const [key] = useParam("key");
  const may = useMay();
  return (
    <Page
      title={<Name>{key}</Name>}
      aside={
        <>
          {may("events:read") && (
            <Link href={`/events?subject=${encodeURIComponent(key)}`}>Its events</Link>
          )}
          <Erase subject={key} />
        </>
      }
    >
      <Erased subject={key} />
      {may("meters:read") && may("usage:read") && <Meters key={`m ${key}`} subject={key} />}
      {may("reports:read") && <Deliveries key={`d ${key}`} subject={key} />}
    </Page>
  );
}

function Meters({ subject }: { subject: string }) {
  const may = useMay();
  const [page] = useParam("page", "1");
  const meters = useApi(["meters", "list", "", page], async () =>
    unwrap(
      await api.GET("/api/v3/metering/meters", {
        params: { query: { page: { size: 25, number: Number(page) } } },
      }),
    ),
  );
  return (
    <Answer of={meters}>
      {({ data, meta }) => (
        <>
          <Card title="Usage over all time">
            {data.length === 0 ? (
              <Empty title="No meter measures it yet">
                {may("meters:write") && (
                  <p>
                    <Link href="/new/meters">Make a meter</Link>: it also counts the events that are
                    here.
                  </p>
                )}
              </Empty>
            ) : (
              <Table
                label="Usage"
                rows={data}
                id={(one) => one.id}
                columns={[
                  {
                    head: "Meter",
                    cell: (one) => (
                      <Link href={`/meters/${one.key}?subject=${encodeURIComponent(subject)}`}>
                        <Name>{one.name}</Name>
                      </Link>
                    ),
                  },
                  {
                    head: "Usage",
                    number: true,
                    cell: (one) => <Total meter={one} subject={subject} />,
                  },
                ]}
              />
            )}
          </Card>
          {data.length > 0 && <NumberPages {...meta.page} />}
        </>
      )}
    </Answer>
  );
}

/** The usage of a subject in a meter. It is asked once the row comes into view. */
function Total({ meter, subject }: { meter: Schemas["Meter"]; subject: string }) {
  const [place, came] = useCameIntoView<HTMLDivElement>();
  const found = useApi(
    ["usage", meter.key, "subject", subject],
    () => usage(meter.key, { filters: { dimensions: { subject: { eq: subject } } } }),
    undefined,
    came,
  );
  const row = found.data?.data[0];
  return (
    <div ref={place}>
      {found.data === undefined ? (
        <span className="muted">{found.error ? "no answer" : "…"}</span>
      ) : row === undefined ? (
        <span className="muted">none</span>
      ) : (
        <Why question={{ meter: meter.key, from: row.from, to: row.to, subject, value: row.value }}>
          {grouped(row.value)}
        </Why>
      )}
    </div>
  );
}

function Deliveries({ subject }: { subject: string }) {
  const [after] = useParam("after");
  const found = useApi(["deliveries", "subject", subject, after], async () =>
    unwrap(
      await api.GET("/api/v3/metering/deliveries", {
        params: { query: { filter: { subject }, page: { size: 25, ...(after ? { after } : {}) } } },
      }),
    ),
  );
  return (
    <Card title="Deliveries">
      <Answer of={found}>
        {({ data, meta }) => (
          <>
            {data.length === 0 ? (
              <Empty title="Nothing was delivered for it yet" />
            ) : (
              <DeliveryTable rows={data} by="Sync" />
            )}
            <CursorPages next={meta.page.next} />
          </>
        )}
      </Answer>
    </Card>
  );
}
