import { useQueryClient } from "@tanstack/react-query";

import { api, unwrap, type Schemas } from "../api.js";
import {
  Answer,
  Card,
  Code,
  Empty,
  Figure,
  Link,
  Name,
  NumberPages,
  Page,
  Table,
  TextFilter,
} from "../parts/basics.js";
import { useCameIntoView } from "../parts/in-view.js";
import { Sparkline } from "../parts/sparkline.js";
import { Why, questionOf } from "../parts/why-link.js";
import { sumOf } from "../rules/figures.js";
import { windowStarts, type Range } from "../rules/range.js";
import { seriesOf } from "../rules/series.js";
import { posting } from "../rules/snippets.js";
import { setParams, useApi, useKeyed, useMay, useParam, useView } from "../state.js";
import { adds, latest, spanUntil, usage } from "../usage.js";

type Meter = Schemas["Meter"];
const SIZE = 25;

export default function Meters() {
  const may = useMay();
  const [search] = useParam("search");
  const [page] = useParam("page", "1");
  const meters = useApi(["meters", "list", search, page], async () => {
    const filter = search === "" ? {} : { filter: { key: { contains: search } } };
    return unwrap(
      await api.GET("/api/v3/metering/meters", {
        params: { query: { page: { size: SIZE, number: Number(page) }, ...filter } },
      }),
    );
  });
  return (
    <Page
      title="Meters"
      aside={
        may("meters:write") && (
          <Link href="/new/meters" className="button main">
            New meter
          </Link>
        )
      }
    >
      <div className="filters">
        <TextFilter
          label="Key contains"
          value={search}
          set={(text) => setParams({ search: text, page: "" })}
        />
      </div>
      <Answer of={meters}>
        {(found) =>
          found.data.length === 0 ? (
            <None searched={search !== ""} />
          ) : (
            <>
              <Card title="Meters, with their last 30 days of usage">
                <List meters={found.data} />
              </Card>
              <NumberPages {...found.meta.page} />
            </>
          )
        }
      </Answer>
    </Page>
  );
}

function List({ meters }: { meters: readonly Meter[] }) {
  return (
    <Table
      label="Meters"
      rows={meters}
      id={(meter) => meter.id}
      columns={[
        {
          head: "Meter",
          cell: (meter) => (
            <>
              <Link href={`/meters/${meter.key}`}>
                <Name>{meter.name}</Name>
              </Link>
              <div className="muted">
                <code>{meter.key}</code>
              </div>
            </>
          ),
        },
        { head: "Measures", cell: (meter) => <Measures meter={meter} /> },
        { head: "30 days", cell: (meter) => <Recent meter={meter} part="line" /> },
        { head: "Usage", number: true, cell: (meter) => <Recent meter={meter} part="total" /> },
      ]}
    />
  );
}

/** What a meter measures, in words. */
export function Measures({ meter }: { meter: Meter }) {
  const of = meter.value_property === undefined ? "events" : meter.value_property;
  return (
    <span>
      {meter.aggregation.replaceAll("_", " ")} of <code>{of}</code>{" "}
      <span className="muted">in</span> <Name>{meter.event_type}</Name>
    </span>
  );
}

/** The usage of the last 30 days by day; both columns of a row share one question. It is asked once the
 * row comes into view.
 */
function Recent({ meter, part }: { meter: Meter; part: "line" | "total" }) {
  const may = useMay();
  const [place, came] = useCameIntoView<HTMLDivElement>();
  const allowed = may("usage:read") && may("events:read");
  const found = useRecent(meter, allowed && came);
  if (!allowed) return <span className="muted">not shown to this key</span>;
  return (
    <div ref={place}>
      {found.data === undefined ? (
        <span className="muted">{found.error ? "no answer" : "…"}</span>
      ) : (
        <RecentPart meter={meter} part={part} {...found.data} />
      )}
    </div>
  );
}

interface Days {
  readonly values: readonly number[];
  readonly total: Schemas["UsageRow"] | undefined;
}

function useRecent(meter: Meter, enabled: boolean) {
  const { zone } = useView();
  const client = useQueryClient();
  return useApi<Days>(
    ["usage", meter.key, "recent", zone],
    async () => {
      const queryFn = () => latest(meter.event_type);
      const end = await client.fetchQuery({
        queryKey: ["latest", meter.event_type],
        queryFn,
        staleTime: 60_000,
      });
      const range = spanUntil(end, "30d", "P1D", zone);
      const days = await usage(meter.key, { ...range, granularity: "P1D", time_zone: zone });
      const total = adds(meter)
        ? summed(days.data, range)
        : (await usage(meter.key, range)).data[0];
      const values = seriesOf(days.data, windowStarts(range, "P1D", zone), true)[0]?.values ?? [];
      return { values: values.map((value) => value ?? 0), total };
    },
    undefined,
    enabled,
  );
}

/** What windows add up to, as if their whole range had been asked for. */
function summed(
  rows: readonly Schemas["UsageRow"][],
  range: Range,
): Schemas["UsageRow"] | undefined {
  const [first] = rows;
  return first && { ...first, ...range, value: sumOf(rows.map((row) => row.value)) };
}

function RecentPart({
  meter,
  part,
  values,
  total,
}: Days & { meter: Meter; part: "line" | "total" }) {
  if (total === undefined)
    return <span className="muted">{part === "line" ? "no usage" : ""}</span>;
  if (part === "line")
    return (
      <Sparkline values={values} label={`Usage of ${meter.name} by day; the total is beside it`} />
    );
  return (
    <Why question={questionOf(meter.key, total)}>
      <Figure
        value={total.value}
        unit={adds(meter) ? "" : meter.aggregation.replaceAll("_", " ")}
      />
    </Why>
  );
}

function None({ searched }: { searched: boolean }) {
  const keyed = useKeyed();
  const may = useMay();
  if (searched)
    return (
      <Empty title="No meter has such a key">
        Take a part of the key, as it is written in programs.
      </Empty>
    );
  const meter = {
    key: "tokens",
    name: "Tokens used",
    aggregation: "sum",
    event_type: "completion",
    value_property: "$.tokens",
    dimensions: { model: "$.model" },
  };
  return (
    <Empty title="No meter yet">
      <p>
        A meter says which events count, and which value of them. It also counts events that were
        sent before it was made.
      </p>
      {may("meters:write") && (
        <p>
          <Link href="/new/meters">Make one with a preview</Link>, or by a command:
        </p>
      )}
      <Code
        label="Command that makes a meter"
        text={posting(`${location.origin}/api/v3/metering/meters`, meter, keyed)}
      />
    </Empty>
  );
}
