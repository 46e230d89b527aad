import { useState } from "react";

import { api, unwrap, type Schemas } from "../api.js";
import { Answer, Card } from "../parts/basics.js";
import { isInterval, windowsUntil, type Window } from "../rules/windows.js";
import { useApi, useMay } from "../state.js";
import { latest } from "../usage.js";
import { useMeter } from "../meter/meter.js";
import { Bodies, WindowChoice } from "./preview.js";

const WINDOWS = 6;
const BODIES = 20;

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
  const may = useMay();
  const meter = useMeter(sync.meter.key);
  const [place, setPlace] = useState(0);
  const [after, setAfter] = useState("");
  const type = meter.data?.event_type;
  const end = useApi(
    ["latest", type],
    () => latest(type ?? ""),
    undefined,
    type !== undefined && may("events:read"),
  );
  const { interval } = sync.schedule;
  const newest = end.data ?? new Date().toISOString();
  const windows = windowsUntil(newest, isInterval(interval) ? interval : "1d", Date.now(), WINDOWS);
  const window = windows[place] as Window;
  const found = useApi(
    ["preview", "sync", sync.id, window, after],
    async () =>
      unwrap(
        await api.POST("/api/v3/metering/reports/{reportId}/preview", {
          params: {
            path: { reportId: sync.id },
            query: { page: { size: BODIES, ...(after ? { after } : {}) } },
          },
          body: window,
        }),
      ),
    undefined,
    end.data !== undefined || !may("events:read"),
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
        />
      </div>
      <Answer of={found}>
        {(bodies) => (
          <div className="form">
            <Bodies of={bodies} next={setAfter} />
          </div>
        )}
      </Answer>
    </>
  );
}
