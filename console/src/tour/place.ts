import { useEffect, useState } from "react";

import { api, unwrap } from "../api.js";
import { store, stored, useApi, useMay } from "../state.js";

const KEPT = "meterline.tour"; // "on" from the first look at an empty server, then "over"
const NEEDED = ["meters:write", "events:write", "reports:write", "usage:read", "events:read"];

export interface Tour {
  /** Whether it is shown. */
  readonly on: boolean;
  /** Whether it is not known yet. */
  readonly deciding: boolean;
  /** Whether the viewer's key may do what it asks for. */
  readonly allowed: boolean;
  readonly begin: () => void;
  readonly end: () => void;
}

/** Whether the overview is a tour: on an empty server, until it is done or dismissed. Who makes a
 * second meter or sync needs none.
 */
export function useTour(received: number | undefined, syncs: number | undefined): Tour {
  const may = useMay();
  const [kept, keep] = useState(() => stored(KEPT));
  const allowed = NEEDED.every(may);
  const asked = allowed && kept !== "over" && (kept === "on" || received === 0);
  const meters = useApi(
    ["meters", "number"],
    async () =>
      unwrap(await api.GET("/api/v3/metering/meters", { params: { query: { page: { size: 1 } } } }))
        .meta.page.total,
    undefined,
    asked,
  );
  const empty = received === 0 && syncs === 0 && meters.data === 0;
  const few = meters.data !== undefined && meters.data <= 1 && (syncs ?? 0) <= 1;
  const on = asked && (empty || (kept === "on" && few));
  const set = (to: string) => () => {
    store(KEPT, to);
    keep(to);
  };
  useEffect(() => {
    if (on) set("on")(); // so that it stays once there is an event
  }, [on]);
  const deciding = asked && (meters.data === undefined || syncs === undefined) && !meters.error;
  return { on, deciding, allowed, begin: set("on"), end: set("over") };
}
