import { useState } from "react";

import { api, unwrap, type Schemas } from "../api.js";
import { faultsOf, type Faults } from "../forms/faults.js";
import { Empty, Failure, Loading } from "../parts/basics.js";
import { windowsUntil, type Interval, type Window } from "../rules/windows.js";
import { useApi, useMay } from "../state.js";
import { latest } from "../usage.js";
import { Bodies, WindowChoice } from "./preview.js";

type Meter = Schemas["Meter"];
type Defined = Schemas["NewReportPreviewRequest"]["report"];
const WINDOWS = 6;
const BODIES = 20;

/** The bodies that a sync so defined would send for a window that is over. */
export function usePreview(report: Defined, interval: Interval, meter: Meter | undefined) {
  const may = useMay();
  const [place, setPlace] = useState(0);
  const [after, setAfter] = useState("");
  const end = useApi(
    ["latest", meter?.event_type],
    () => latest(meter?.event_type ?? ""),
    undefined,
    meter !== undefined && may("events:read"),
  );
  const newest = end.data ?? new Date().toISOString();
  const windows = windowsUntil(newest, interval, Date.now(), WINDOWS);
  const window = windows[place] as Window;
  const settled = meter !== undefined && (end.data !== undefined || !may("events:read"));
  const found = useApi(
    ["preview", "report", report, window, after],
    async () =>
      unwrap(
        await api.POST("/api/v3/metering/report-preview", {
          params: { query: { page: { size: BODIES, ...(after ? { after } : {}) } } },
          body: { report, ...window },
        }),
      ),
    undefined,
    settled && may("usage:read"),
  );
  const faults: Faults = settled ? faultsOf(found.error, "report.") : new Map();
  return { found, faults, windows, place, setPlace, setAfter, settled };
}

export function PreviewOf({ preview }: { preview: ReturnType<typeof usePreview> }) {
  const { found, faults, windows, place, setPlace, setAfter, settled } = preview;
  const may = useMay();
  if (!may("usage:read"))
    return (
      <p className="muted">
        A preview needs the scope <code>usage:read</code>.
      </p>
    );
  if (!settled)
    return (
      <Empty title="Nothing to show yet">
        <p>Choose a meter. The bodies of its last windows are shown here as they would be sent.</p>
      </Empty>
    );
  return (
    <>
      <div className="filters">
        <WindowChoice
          windows={windows}
          at={place}
          set={(chosen) => {
            setAfter("");
            setPlace(chosen);
          }}
          error={faults.get("to") ?? faults.get("from")}
        />
      </div>
      {found.error ? (
        faults.size > 0 ? (
          <p className="fault">The preview waits: a field says what is wrong.</p>
        ) : (
          <Failure error={found.error} retry={() => void found.refetch()} />
        )
      ) : found.data === undefined ? (
        <Loading />
      ) : (
        <div className={`form${found.isPlaceholderData ? " stale" : ""}`}>
          <Bodies of={found.data} next={setAfter} />
        </div>
      )}
    </>
  );
}
