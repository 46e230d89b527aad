import { api, unwrap } from "../api.js";
import { useApi } from "../state.js";

/** One meter, by its key or id. */
export function useMeter(key: string, enabled = true) {
  const path = { meterId: key };
  return useApi(
    ["meters", key, "one"],
    async () => unwrap(await api.GET("/api/v3/metering/meters/{meterId}", { params: { path } })),
    undefined,
    enabled,
  );
}
