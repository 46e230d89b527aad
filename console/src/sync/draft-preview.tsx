import { api, unwrap, type Schemas } from "../api.js";
import { faultsOf, type Faults } from "../forms/faults.js";
import { Empty, Failure, Loading } from "../parts/basics.js";
import type { Interval } from "../rules/windows.js";
import { useApi, useMay } from "../state.js";
import { Bodies, useWindows, WindowChoice } from "./preview.js";

type Meter = Schemas["Meter"];
type Defined = Schemas["NewReportPreviewRequest"]["report"];

/** The bodies that a sync so defined would send for a window that is over. */
export function usePreview(
  report: Defined,
  interval: Interval,
  meter: Meter | undefined,
  from?: string,
) {
  const may = useMay();
  const { window, choice, page, next, known } = useWindows(meter?.event_type, interval, from);
  const settled = meter !== undefined && known;
  const found = useApi(
    ["preview", "report", report, window, page],
    async () =>
      unwrap(
        await api.POST("/api/v3/metering/report-preview", {
          params: { query: { page } },
          body: { report, ...window },
        }),
      ),
    undefined,
    settled && may("usage:read"),
  );
  const faults: Faults = settled ? faultsOf(found.error, "report.") : new Map();
  return { found, faults, choice, next, settled };
}

export function PreviewOf({ preview }: { preview: ReturnType<typeof usePreview> }) {
  const { found, faults, choice, next, settled } = preview;
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
        <WindowChoice {...choice} error={faults.get("to") ?? faults.get("from")} />
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
          <Bodies of={found.data} next={next} />
        </div>
      )}
    </>
  );
}
