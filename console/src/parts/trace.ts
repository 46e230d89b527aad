import { API, text, type Schemas } from "../api.js";
import { parsed } from "../rules/exact.js";
import { useApi } from "../state.js";

/** What became of an event and its copies, with the numbers as they were sent. */
export function useTrace(source: string, id: string, every?: number) {
  return useApi(
    ["trace", source, id],
    async () => {
      const query = new URLSearchParams({ source, id });
      return parsed(await text(`${API}/event-trace?${query}`)) as Schemas["EventTrace"];
    },
    every,
  );
}
