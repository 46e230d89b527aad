import { API, api, exact, queryString, unwrap, type Schemas } from "../api.js";
import { pathsIn } from "../rules/draft.js";
import { useApi, useMay } from "../state.js";

const LOOKED_AT = 100;

/** Types of the newest events, to choose from. */
export function useRecentTypes(): readonly string[] {
  const may = useMay();
  const found = useApi(
    ["recent", "types"],
    async () =>
      unwrap(
        await api.GET("/api/v3/metering/events", {
          params: { query: { page: { size: LOOKED_AT } } },
        }),
      ).data.flatMap((one) => one.event?.type ?? []),
    undefined,
    may("events:read"),
  );
  return [...new Set(found.data ?? [])].sort();
}

export interface Sample {
  readonly event: Schemas["ListedEvent"]["event"];
  readonly paths: readonly string[];
}

/** The newest event of a type, and the paths that its data has. */
export function useSample(type: string): Sample | undefined {
  const may = useMay();
  const found = useApi(
    ["recent", "event", type],
    async () => {
      const query = { filter: { type: { eq: type } }, page: { size: 1 } };
      const { data } = await exact<Schemas["EventPage"]>(`${API}/events?${queryString(query)}`);
      return data[0]?.event ?? null;
    },
    undefined,
    type !== "" && may("events:read"),
  );
  const event = found.data ?? undefined;
  if (event?.type !== type) return undefined;
  return { event, paths: pathsIn((event as { data?: unknown }).data) };
}
