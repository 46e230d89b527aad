import { useState } from "react";

import { api, unwrap, type Schemas } from "../api.js";
import { Answer, Card, Failure } from "../parts/basics.js";
import { isInterval } from "../rules/windows.js";
import { useApi, useMay } from "../state.js";
import { useMeter } from "../meter/meter.js";
import { Bodies, useWindows, WindowChoice } from "./preview.js";

/** What a run of a window would send now; asked for when it is opened, for it reads much. */
export function WindowPreview({ sync }: { sync: Schemas["Report"] }) {
  const may = useMay();
  const [open, setOpen] = useState(false);
  if (!may("meters:read")) return null;
  return (
    <Card
      title="What it would send now"
      aside={
        <button
          type="button"
          className="button"
          aria-expanded={open}
          onClick={() => setOpen(!open)}
        >
          {open ? "Hide the preview" : "Preview a window"}
        </button>
      }
    >
      {open ? (
        <Opened sync={sync} />
      ) : (
        <p className="muted">
          The exact bodies of a window, by subject. Nothing is stored or sent.
        </p>
      )}
    </Card>
  );
}

function Opened({ sync }: { sync: Schemas["Report"] }) {
  const meter = useMeter(sync.meter.key);
  const { interval, start_at } = sync.ending_schedule ?? sync.schedule; // of windows that are over
  const { window, choice, page, next, known } = useWindows(
    meter.data?.event_type,
    isInterval(interval) ? interval : "1d",
    start_at,
  );
  const found = useApi(
    ["preview", "sync", sync.id, window, page],
    async () =>
      unwrap(
        await api.POST("/api/v3/metering/reports/{reportId}/preview", {
          params: {
            path: { reportId: sync.id },
            query: { page },
          },
          body: window,
        }),
      ),
    undefined,
    known,
  );
  if (meter.data === undefined && meter.error)
    return <Failure error={meter.error} retry={() => void meter.refetch()} />;
  return (
    <>
      <div className="filters">
        <WindowChoice {...choice} />
      </div>
      <Answer of={found}>
        {(bodies) => (
          <div className="form">
            <Bodies of={bodies} next={next} />
          </div>
        )}
      </Answer>
    </>
  );
}
