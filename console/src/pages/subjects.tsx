import { api, unwrap } from "../api.js";
import {
  Answer,
  Card,
  CursorPages,
  Empty,
  EmptyPage,
  Link,
  Name,
  Page,
  Table,
  TextFilter,
  Time,
} from "../parts/basics.js";
import { setParams, useApi, useParam } from "../state.js";
import { Erasures } from "../subject/erasures.js";

export default function Subjects() {
  const [search] = useParam("search");
  const [after] = useParam("after");
  const found = useApi(["subjects", search, after], async () => {
    const filter = search ? { filter: { key: { contains: search } } } : {};
    return unwrap(
      await api.GET("/api/v3/metering/events/subjects", {
        params: { query: { ...filter, page: { size: 50, ...(after ? { after } : {}) } } },
      }),
    );
  });
  return (
    <Page title="Subjects">
      <div className="filters">
        <TextFilter
          label="Key contains"
          value={search}
          set={(text) => setParams({ search: text, after: "" })}
        />
      </div>
      <Answer of={found}>
        {({ data, meta }) =>
          data.length === 0 ? (
            <EmptyPage next={meta.page.next}>
              <None searched={search !== ""} />
            </EmptyPage>
          ) : (
            <>
              <Card title="Subjects of events">
                <Table
                  label="Subjects"
                  rows={data}
                  id={(one) => one.key}
                  columns={[
                    {
                      head: "Subject",
                      cell: (one) => (
                        <Link href={`/subject?key=${encodeURIComponent(one.key)}`}>
                          <Name>{one.key}</Name>
                        </Link>
                      ),
                    },
                    { head: "First event", cell: (one) => <Time at={one.first_event_at} /> },
                    { head: "Last event", cell: (one) => <Time at={one.last_event_at} /> },
                  ]}
                />
              </Card>
              <CursorPages next={meta.page.next} />
            </>
          )
        }
      </Answer>
      <Erasures />
    </Page>
  );
}

function None({ searched }: { searched: boolean }) {
  if (searched)
    return (
      <Empty title="No subject has such a key">Take a part of the key, as events name it.</Empty>
    );
  return (
    <Empty title="No subject yet">
      <p>
        A subject is listed as soon as an event names it. <Link href="/events">Send an event</Link>.
      </p>
    </Empty>
  );
}
