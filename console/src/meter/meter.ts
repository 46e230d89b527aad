import { api, unwrap } from "../api.js";
import { useApi } from "../state.js";

/** One meter, by its key or id. */
export function useMeter(key: string) {
  return useApi(["meters", key, "one"], async () =>
    unwrap(
      await api.GET("/api/v3/metering/meters/{meterId}", { params: { path: { meterId: key } } }),
    ),
  );
}
