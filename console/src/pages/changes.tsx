import { api, unwrap, type Schemas } from "../api.js";
import {
  Answer,
  Card,
  Choice,
  CursorPages,
  Empty,
  EmptyPage,
  Name,
  Page,
  Table,
  Time,
} from "../parts/basics.js";
import { setParams, useApi, useParam } from "../state.js";

const KINDS = ["meter", "report", "subject", "api_key", "refusal", "replay"] as const;

/** The API calls a sync a report. */
function words(kind: Schemas["Kind"]): string {
  return kind === "report" ? "sync" : kind.replace("_", " ");
}

export default function Changes() {
  const [kind] = useParam("kind");
  const [after] = useParam("after");
  const filter = kind ? { filter: { kind: kind as Schemas["Kind"] } } : {};
  const found = useApi(["changes", kind, after], async () =>
    unwrap(
      await api.GET("/api/v3/metering/changes", {
        params: { query: { ...filter, page: { size: 50, ...(after ? { after } : {}) } } },
      }),
    ),
  );
  return (
    <Page title="Changes">
      <div className="filters">
        <Choice
          label="Changes of"
          value={kind}
          set={(value) => setParams({ kind: value, after: "" })}
          options={[["", "everything"], ...KINDS.map((one) => [one, words(one)] as const)]}
        />
      </div>
      <Answer of={found}>
        {({ data, meta }) =>
          data.length === 0 ? (
            <EmptyPage next={meta.page.next}>
              <Empty title={kind ? "No change is of that kind" : "Nothing was changed yet"}>
                Meters, syncs, keys and refusals that somebody changes are listed here, with who did
                it.
              </Empty>
            </EmptyPage>
          ) : (
            <>
              <Card title="Who changed what, the newest first">
                <Table
                  label="Changes"
                  rows={data}
                  id={(one) => one.id}
                  columns={[
                    { head: "When", cell: (one) => <Time at={one.at} /> },
                    { head: "Who", cell: (one) => <Name>{one.author}</Name> },
                    {
                      head: "Did",
                      cell: (one) => (
                        <span className="nowrap">{`${one.action} ${words(one.kind)}`}</span>
                      ),
                    },
                    { head: "What", cell: (one) => <Name>{one.name}</Name> },
                    {
                      head: "Details",
                      cell: (one) => (
                        <div className="words">
                          {one.detail ?? one.members?.map((member) => member.member).join(", ")}
                        </div>
                      ),
                    },
                  ]}
                />
              </Card>
              <CursorPages next={meta.page.next} />
            </>
          )
        }
      </Answer>
    </Page>
  );
}
