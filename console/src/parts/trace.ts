import { API, exact, type Schemas } from "../api.js";
import { useApi } from "../state.js";

/** What became of an event and its copies, with the numbers as they were sent. */
export function useTrace(source: string, id: string, every?: number) {
  return useApi(
    ["trace", source, id],
    () => exact<Schemas["EventTrace"]>(`${API}/event-trace?${new URLSearchParams({ source, id })}`),
    every,
  );
}
