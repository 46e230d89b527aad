import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { Link, useLocation } from "wouter";

import { api, unwrap, type Schemas } from "../api.js";
import { FormDialog } from "../forms/dialog.js";
import { Field } from "../forms/fields.js";
import { Ask } from "../parts/ask.js";
import { many } from "../rules/figures.js";
import { useView } from "../state.js";
import { Replay } from "./replay.js";

type Report = Schemas["Report"];
type Owed = "all" | "newest" | "none";

/** What can be done to a sync: change it, pause or resume it, send again, end it. */
export function Actions({ sync }: { sync: Report }) {
  return (
    <>
      <Link href={`/syncs/${encodeURIComponent(sync.slug)}/edit`} className="button">
        Edit
      </Link>
      {sync.state === "active" ? <Pause sync={sync} /> : <Resume sync={sync} />}
      <Replay sync={sync} />
      <End sync={sync} />
    </>
  );
}

function Pause({ sync }: { sync: Report }) {
  const client = useQueryClient();
  const pause = async () => {
    const params = { path: { reportId: sync.id } };
    unwrap(await api.POST("/api/v3/metering/reports/{reportId}/pause", { params }));
    await client.invalidateQueries();
  };
  return (
    <Ask
      open="Pause"
      title={`Pause ${sync.slug}?`}
      words="No run is made and nothing is sent until you resume it. What passes meanwhile is owed: you choose then what to send of it."
      acts={[["Pause", pause]]}
    />
  );
}

const CHOICES: readonly (readonly [Owed, string, string])[] = [
  [
    "all",
    "All of it",
    "A run of every window that passed, and every delivery that has not arrived.",
  ],
  ["newest", "Only the newest window", "The rest is recorded as skipped or cancelled."],
  ["none", "Nothing of it", "You can run or replay it later."],
];

/** Resume a sync. What it owes is told first; what becomes of it is chosen. */
function Resume({ sync }: { sync: Report }) {
  const { time } = useView();
  const client = useQueryClient();
  const [owed, setOwed] = useState<Owed>("all");
  const { status } = sync;
  const act = async () => {
    const params = { path: { reportId: sync.id } };
    unwrap(
      await api.POST("/api/v3/metering/reports/{reportId}/resume", { params, body: { owed } }),
    );
    await client.invalidateQueries();
  };
  return (
    <FormDialog
      open="Resume"
      title={`Resume ${sync.slug}?`}
      submit="Resume"
      act={act}
      fields={["owed"]}
    >
      {() => (
        <>
          <div className="notice warn">
            <p>
              <strong>It owes {many(status.owed_deliveries, "delivery", "deliveries")}</strong>
              {status.owed_since && (
                <>, the oldest since {time(status.owed_since, "minute")}</>
              )}.{" "}
              {status.last_run
                ? `Windows after ${time(status.last_run.to, "minute")} have no run yet.`
                : "No window has a run yet."}
            </p>
          </div>
          <fieldset className="boxes">
            <legend>Send of what it owes</legend>
            {CHOICES.map(([name, words, hint]) => (
              <label key={name} className="box">
                <input
                  type="radio"
                  name="owed"
                  value={name}
                  checked={owed === name}
                  onChange={() => setOwed(name)}
                />
                <span>
                  {words}
                  <span className="hint">{hint}</span>
                </span>
              </label>
            ))}
          </fieldset>
        </>
      )}
    </FormDialog>
  );
}

function End({ sync }: { sync: Report }) {
  const [, navigate] = useLocation();
  const client = useQueryClient();
  const [slug, setSlug] = useState("");
  const owed = sync.status.owed_deliveries;
  const act = async () => {
    const params = { path: { reportId: sync.id } };
    unwrap(await api.DELETE("/api/v3/metering/reports/{reportId}", { params }));
    navigate("/syncs");
    await client.invalidateQueries({ queryKey: ["reports", "list"] });
  };
  return (
    <FormDialog
      open="End"
      opened={() => setSlug("")}
      title={`End ${sync.slug}?`}
      submit="End the sync"
      act={act}
      ready={slug === sync.slug}
      danger
    >
      {() => (
        <>
          <p>
            {owed === 0
              ? "It owes no delivery."
              : `${many(owed, "delivery", "deliveries")} that it owes would be cancelled.`}{" "}
            Runs and deliveries stay listed. This cannot be undone.
          </p>
          <Field label={`Write ${sync.slug} to confirm`} value={slug} set={setSlug} needed code />
        </>
      )}
    </FormDialog>
  );
}
