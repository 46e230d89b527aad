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

/** Whether values of windows may be added up. */
export function adds(meter: Meter): boolean {
  return meter.aggregation === "sum" || meter.aggregation === "count";
}
