import { api, unwrap } from "../api.js";
import { SLOW_MS, useApi } from "../state.js";

/** One sync, by its name as it stands in an address. */
export function useSync(slug: string) {
  const path = { reportId: decodeURIComponent(slug) };
  return useApi(
    ["reports", slug, "one"], // a sync may be called as a list is
    async () => unwrap(await api.GET("/api/v3/metering/reports/{reportId}", { params: { path } })),
    SLOW_MS,
  );
}
