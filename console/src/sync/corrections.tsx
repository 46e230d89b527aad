import { api, unwrap, type Schemas } from "../api.js";
import { Answer, CursorPages, Empty, Link, Name, Table } from "../parts/basics.js";
import { Opened } from "../parts/opened.js";
import { dimensions, grouped } from "../rules/figures.js";
import { setParams, useApi, useParam } from "../state.js";
import { Difference } from "../parts/difference.js";

const CAUSES: Record<Schemas["Correction"]["cause"], string> = {
  late_usage: "events came late",
  first_seen: "a subject came late, without a delivery before",
  filter: "it does not pass the filter any more",
  gone: "there is no usage any more",
  meter_changed: "another revision of the meter counts",
  report_changed: "the sync groups or filters otherwise",
};

/** A run that corrects an earlier one: each entry as it was delivered, and as it is. */
export function Corrections({ sync }: { sync: Schemas["Report"] }) {
  const [run] = useParam("corrections");
  const [after] = useParam("corrections_after");
  const found = useApi(
    ["corrections", run, after],
    async () =>
      unwrap(
        await api.GET("/api/v3/metering/reports/{reportId}/runs/{runId}/corrections", {
          params: {
            path: { reportId: sync.id, runId: run },
            query: { page: { size: 25, ...(after ? { after } : {}) } },
          },
        }),
      ),
    undefined,
    run !== "",
  );
  if (run === "") return null;
  return (
    <Opened
      key={run}
      title="Corrections of late usage"
      close={() => setParams({ corrections: "", corrections_after: "" })}
    >
      <p className="muted">
        {sync.revisions === "send"
          ? "They were sent, as deliveries that replace the earlier ones."
          : "They are recorded and shown here. They were not sent."}
      </p>
      <Answer of={found}>
        {({ data, meta }) =>
          data.length === 0 ? (
            <Empty title="This run corrects nothing" />
          ) : (
            <>
              <Table
                label="Corrections"
                rows={data}
                id={(one) => String(one.number)}
                columns={[
                  { head: "Subject", cell: (one) => <Name>{one.subject}</Name> },
                  { head: "Entry", cell: (one) => <Name>{dimensions(one.dimensions)}</Name> },
                  {
                    head: "Delivered",
                    number: true,
                    cell: (one) =>
                      one.old_value === undefined ? (
                        <span className="muted">nothing</span>
                      ) : (
                        <del className="was">{grouped(one.old_value)}</del>
                      ),
                  },
                  {
                    head: "Is",
                    number: true,
                    cell: (one) =>
                      one.new_value === undefined ? (
                        <span className="muted">nothing</span>
                      ) : (
                        <ins className="becomes">{grouped(one.new_value)}</ins>
                      ),
                  },
                  {
                    head: "Difference",
                    number: true,
                    cell: (one) => <Difference of={one.difference} />,
                  },
                  {
                    head: "Because",
                    cell: (one) => <div className="words">{CAUSES[one.cause]}</div>,
                  },
                  {
                    head: "Corrects",
                    cell: (one) =>
                      one.replaces ? (
                        <Link href={`/deliveries/${one.replaces}`}>the delivery</Link>
                      ) : (
                        ""
                      ),
                  },
                ]}
              />
              <CursorPages next={meta.page.next} param="corrections_after" />
            </>
          )
        }
      </Answer>
    </Opened>
  );
}
