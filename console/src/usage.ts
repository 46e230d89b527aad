import { api, unwrap, type Schemas } from "./api.js";
import { aligned, SPANS, type Granularity, type Range, type Span } from "./rules/range.js";

type Meter = Schemas["Meter"];

/** Where a meter's usage ends: the time of its newest event, or now if that is within a day. */
export async function latest(eventType: string): Promise<string> {
  const query = { filter: { type: { eq: eventType } }, page: { size: 1 } };
  const found = unwrap(await api.GET("/api/v3/metering/events", { params: { query } }));
  const at = found.data[0]?.event?.time ?? found.data[0]?.ingested_at;
  const nowMs = Date.now();
  if (at == null || nowMs - Date.parse(at) < 86_400_000) return new Date(nowMs).toISOString();
  return new Date(Date.parse(at) + 1000).toISOString();
}

/** A span that ends at an instant, in whole windows. */
export function spanUntil(end: string, span: Span, granularity: Granularity, zone: string): Range {
  return aligned(
    { from: new Date(Date.parse(end) - SPANS[span].ms).toISOString(), to: end },
    granularity,
    zone,
  );
}

export async function usage(
  meter: string,
  body: Schemas["QueryRequest"],
): Promise<Schemas["QueryResult"]> {
  const params = { path: { meterId: meter } };
  return unwrap(await api.POST("/api/v3/metering/meters/{meterId}/query", { params, body }));
}

/** Groups that are told apart in one view; a meter may have a million subjects. */
export const GROUPS_MAX = 20;

/** Usage by windows of the groups that have the most of it in the whole range. */
export async function usageOfTop(
  meter: string,
  query: Schemas["QueryRequest"],
): Promise<Schemas["QueryResult"] & { readonly limited: boolean }> {
  const groups = query.group_by_dimensions ?? [];
  if (groups.length === 0) return { ...(await usage(meter, query)), limited: false };
  const { granularity: _, ...whole } = query;
  const top = await usage(meter, { ...whole, top: GROUPS_MAX + 1 });
  if (top.data.length <= GROUPS_MAX) return { ...(await usage(meter, query)), limited: false };
  const dimensions = { ...query.filters?.dimensions };
  for (const name of groups) {
    const values = top.data.slice(0, GROUPS_MAX).map((row) => row.dimensions[name] ?? "");
    dimensions[name] ??= { in: [...new Set(values)] };
  }
  return { ...(await usage(meter, { ...query, filters: { dimensions } })), limited: true };
}

/** Whether values of windows may be added up. */
export function adds(meter: Meter): boolean {
  return meter.aggregation === "sum" || meter.aggregation === "count";
}
