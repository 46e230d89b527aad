import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { api, unwrap, type Schemas } from "../api.js";
import { FormDialog } from "../forms/dialog.js";
import { Field, Select } from "../forms/fields.js";
import { faultAt } from "../forms/faults.js";
import { useStill } from "../forms/still.js";
import { Ask } from "../parts/ask.js";
import { Answer, Card, CursorPages, Failure, State, Table, Time } from "../parts/basics.js";
import { grouped, many } from "../rules/figures.js";
import { LIVE_MS, useApi, useMay, useParam } from "../state.js";

type Report = Schemas["Report"];
const REPLAYS = 10;

interface Asked {
  readonly what: "failed" | "all";
  readonly days: string;
  readonly subject: string;
}

function bodyOf(sync: Report, run: string, asked: Asked, openedMs: number) {
  const sinceMs = openedMs - Number(asked.days) * 86_400_000;
  const since = asked.days === "" ? sync.created_at : new Date(sinceMs).toISOString();
  return {
    report: sync.id,
    ...(run === "" ? {} : { run }),
    ...(asked.what === "failed" ? { failed_since: since } : {}),
    ...(asked.subject === "" ? {} : { subject: asked.subject }),
  };
}

/** Send deliveries again. How many it would be is counted before anything is sent. */
export function Replay({ sync }: { sync: Report }) {
  const client = useQueryClient();
  const [run] = useParam("run");
  const [asked, setAsked] = useState<Asked>({ what: "failed", days: "", subject: "" });
  const [perSecond, setPerSecond] = useState("20");
  const [openedMs, setOpenedMs] = useState<number>();
  const still = useStill(asked);
  const body = bodyOf(sync, run, still, openedMs ?? 0);
  const count = useApi(
    ["replays", sync.id, "count", body],
    async () =>
      unwrap(
        await api.POST("/api/v3/metering/replays", { body: { ...body, dry_run: true } }),
      ) as Schemas["ReplayCount"],
    LIVE_MS,
    openedMs !== undefined,
  );
  const settled = JSON.stringify(still) === JSON.stringify(asked) && !count.isPlaceholderData;
  const counted = settled ? count.data?.counted : undefined;
  const act = async () => {
    unwrap(
      await api.POST("/api/v3/metering/replays", {
        body: { ...body, per_second: Number(perSecond) },
      }),
    );
    await client.invalidateQueries();
  };
  return (
    <FormDialog
      open="Replay"
      opened={() => setOpenedMs(Date.now())}
      closed={() => setOpenedMs(undefined)}
      title={run === "" ? "Send deliveries again" : "Send deliveries of this run again"}
      submit={counted ? `Send ${many(counted, "delivery", "deliveries")} again` : "Send again"}
      act={act}
      ready={counted !== undefined && counted > 0}
      fields={["per_second", "subject", "failed_since"]}
    >
      {(faults) => (
        <>
          <p>
            The same bytes go out under the same ids, so a receiver knows what it has already. What
            is on its way by itself is left alone.
          </p>
          <Select
            label="Which"
            value={asked.what}
            set={(what) => setAsked({ ...asked, what: what === "all" ? "all" : "failed" })}
            options={[
              ["failed", "those that failed and have not arrived since"],
              ["all", "all, also those that arrived"],
            ]}
          />
          {asked.what === "failed" && (
            <Select
              label="Failed"
              value={asked.days}
              set={(days) => setAsked({ ...asked, days })}
              options={[
                ["", "at any time"],
                ["1", "in the last day"],
                ["7", "in the last 7 days"],
                ["30", "in the last 30 days"],
              ]}
              error={faultAt(faults, "failed_since")}
            />
          )}
          <Field
            label="Subject"
            value={asked.subject}
            set={(subject) => setAsked({ ...asked, subject })}
            error={faultAt(faults, "subject")}
          />
          <Field
            label="How many a second"
            type="number"
            value={perSecond}
            set={setPerSecond}
            error={faultAt(faults, "per_second")}
            needed
          />
          <div className="notice" role="status">
            {count.error && settled ? (
              <Failure error={count.error} />
            ) : counted === undefined ? (
              <p className="muted">Counting …</p>
            ) : counted === 0 ? (
              <p>
                <strong>0 deliveries</strong> are like that: there is nothing to send.
              </p>
            ) : (
              <p>
                <strong>{many(counted, "delivery", "deliveries")}</strong>{" "}
                {counted === 1 ? "is" : "are"} like that
                {count.data && <>: {states(count.data.by_state)}</>}.
              </p>
            )}
          </div>
        </>
      )}
    </FormDialog>
  );
}

function states(of: Schemas["ReplayCount"]["by_state"]): string {
  return Object.entries(of)
    .filter(([, count]) => count > 0)
    .map(([state, count]) => `${grouped(String(count))} ${state}`)
    .join(", ");
}

/** The replays of a sync that were asked for, with how far each is. */
export function Replays({ sync }: { sync: Report }) {
  const may = useMay();
  const client = useQueryClient();
  const [after] = useParam("replays_after");
  const found = useApi(
    ["replays", sync.id, "list", after],
    async () => {
      const page = { size: REPLAYS, ...(after ? { after } : {}) };
      const query = { filter: { report: sync.id }, page };
      return unwrap(await api.GET("/api/v3/metering/replays", { params: { query } }));
    },
    LIVE_MS,
  );
  const cancel = (id: string) => async () => {
    const params = { path: { replayId: id } };
    unwrap(await api.POST("/api/v3/metering/replays/{replayId}/cancel", { params }));
    await client.invalidateQueries({ queryKey: ["replays"] });
  };
  const none = found.data?.data.length === 0 && after === "";
  if (none || (found.data === undefined && !found.error)) return null; // most syncs have none
  return (
    <Answer of={found}>
      {({ data, meta }) => (
        <Card title="Replays, the newest first">
          <Table
            label="Replays"
            rows={data}
            id={(one) => one.id}
            columns={[
              { head: "Asked", cell: (one) => <Time at={one.created_at} /> },
              { head: "State", cell: (one) => <State of={one.state} /> },
              { head: "Counted", number: true, cell: (one) => grouped(String(one.counted)) },
              { head: "Queued", number: true, cell: (one) => grouped(String(one.replayed)) },
              { head: "On their way", number: true, cell: (one) => grouped(String(one.in_flight)) },
              { head: "Refused", number: true, cell: (one) => grouped(String(one.refused)) },
              ...(may("reports:write") && data.some((one) => one.state === "running")
                ? [
                    {
                      head: "Change it",
                      cell: (one: Schemas["Replay"]) =>
                        one.state === "running" && (
                          <Ask
                            open="Cancel"
                            title="Cancel this replay?"
                            words="Deliveries that are queued already are still sent. No others follow."
                            acts={[["Cancel the replay", cancel(one.id)]]}
                          />
                        ),
                    },
                  ]
                : []),
            ]}
          />
          <CursorPages next={meta.page.next} param="replays_after" />
        </Card>
      )}
    </Answer>
  );
}
