import { useMutation, useQueryClient } from "@tanstack/react-query";

import { API, api, exact, unwrap, type Schemas } from "../api.js";
import {
  Answer,
  Card,
  Choice,
  Code,
  CursorPages,
  Empty,
  EmptyPage,
  Failure,
  KeptFrom,
  Name,
  Page,
  State,
  Table,
  Time,
} from "../parts/basics.js";
import { Opened } from "../parts/opened.js";
import { EventName } from "../parts/event-name.js";
import { Dismiss, Mend, Settled } from "../refusal/mend.js";
import { printed } from "../rules/exact.js";
import { setParams, useApi, useMay, useParam } from "../state.js";

export default function Refusals() {
  const [kind] = useParam("kind");
  const [state] = useParam("state", "open");
  const [after] = useParam("after");
  const [one] = useParam("refusal");
  const filter = {
    ...(kind ? { kind: kind as Schemas["RefusalKind"] } : {}),
    ...(state !== "any" ? { state: state as Schemas["RefusalState"] } : {}),
  };
  const found = useApi(["refusals", filter, after], async () =>
    unwrap(
      await api.GET("/api/v3/metering/refusals", {
        params: { query: { filter, page: { size: 25, ...(after ? { after } : {}) } } },
      }),
    ),
  );
  return (
    <Page title="Refusals">
      <p className="muted">
        Events that arrived and do not count. Mend the cause, then send them anew or dismiss them.
      </p>
      <div className="filters">
        <Choice
          label="Kind"
          value={kind}
          set={(value) => setParams({ kind: value, after: "" })}
          options={[
            ["", "any"],
            ["conflict", "conflict"],
            ["inbox", "inbox"],
            ["unreadable", "unreadable"],
          ]}
        />
        <Choice
          label="State"
          value={state}
          set={(value) => setParams({ state: value, after: "" })}
          options={[
            ["open", "open"],
            ["redriving", "redriving"],
            ["redriven", "redriven"],
            ["dismissed", "dismissed"],
            ["any", "any"],
          ]}
        />
      </div>
      {one !== "" && <Contents key={one} id={one} />}
      <Answer of={found}>
        {({ data, meta }) =>
          data.length === 0 ? (
            <EmptyPage next={meta.page.next} keptFrom={meta.kept_from}>
              <Empty title="Nothing is refused">
                Events that do not count would be listed here, each with its reason.
              </Empty>
            </EmptyPage>
          ) : (
            <>
              <Card title="Refusals, the newest first">
                <Table
                  label="Refusals"
                  rows={data}
                  id={(row) => row.id}
                  columns={[
                    {
                      head: "Event",
                      cell: (row) => <EventName event={row.event} />,
                    },
                    { head: "Kind", cell: (row) => row.kind },
                    { head: "State", cell: (row) => <State of={row.state} /> },
                    { head: "Reason", cell: (row) => <div className="words">{row.reason}</div> },
                    { head: "Subject", cell: (row) => <Name>{row.subject ?? ""}</Name> },
                    { head: "Received", cell: (row) => <Time at={row.ingested_at} /> },
                    {
                      head: "Look",
                      cell: (row) => (
                        <button
                          type="button"
                          className="button small"
                          onClick={() => setParams({ refusal: row.id })}
                        >
                          Compare
                        </button>
                      ),
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

/** What was refused beside what was accepted, and what can be done. */
function Contents({ id }: { id: string }) {
  const client = useQueryClient();
  const may = useMay();
  const params = { path: { refusalId: id } };
  const found = useApi(["refusal", id], () =>
    exact<Schemas["RefusalContents"]>(`${API}/refusals/${encodeURIComponent(id)}`),
  );
  const done = () => client.invalidateQueries();
  const redrive = useMutation({
    mutationFn: async () =>
      unwrap(await api.POST("/api/v3/metering/refusals/{refusalId}/redrive", { params, body: {} })),
    onSuccess: done,
  });
  return (
    <Answer of={found}>
      {(refusal) => (
        <Opened title={`Refusal: ${refusal.reason}`} close={() => setParams({ refusal: "" })}>
          <div className="cards">
            <section>
              <h3>Refused</h3>
              {refusal.whole === false && (
                <p className="muted">Only the beginning of it is kept.</p>
              )}
              <Code
                label="Refused"
                text={
                  refusal.refused
                    ? printed(refusal.refused, 2)
                    : (refusal.text ?? refusal.base64 ?? "not kept")
                }
              />
            </section>
            {refusal.accepted && (
              <section>
                <h3>Counted before</h3>
                <Code label="Counted before" text={printed(refusal.accepted.event, 2)} />
              </section>
            )}
          </div>
          {refusal.differences && refusal.differences.length > 0 && (
            <Table
              label="Differences"
              rows={refusal.differences}
              id={(one) => one.path}
              columns={[
                { head: "Member", cell: (one) => <code>{one.path}</code> },
                { head: "Counted", cell: (one) => <code>{printed(one.accepted)}</code> },
                { head: "Refused", cell: (one) => <code>{printed(one.refused)}</code> },
              ]}
            />
          )}
          {refusal.more_differences && (
            <p className="muted">They differ in more: compare both above.</p>
          )}
          <Settled refusal={refusal} />
          {redrive.error && <Failure error={redrive.error} />}
          {refusal.not_redrivable && <p className="muted">{refusal.not_redrivable}</p>}
          {refusal.state === "open" && may("events:write") && (
            <>
              <div className="row">
                {refusal.redrivable === "as_it_is" && (
                  <button
                    type="button"
                    className="button"
                    disabled={redrive.isPending}
                    onClick={() => redrive.mutate()}
                  >
                    Send it anew as it is
                  </button>
                )}
                <Dismiss refusal={refusal} />
              </div>
              {refusal.redrivable !== "none" && (
                <section className="form">
                  <h3>Mend it before it is sent anew</h3>
                  <Mend key={refusal.id} refusal={refusal} />
                </section>
              )}
            </>
          )}
        </Opened>
      )}
    </Answer>
  );
}
