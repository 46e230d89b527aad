import { replaceEqualDeep } from "@tanstack/react-query";
import { useMemo, useRef } from "react";

import type { Schemas } from "./api.js";
import { aligned, fitting, isSpan, SPANS, type Granularity, type Range } from "./rules/range.js";
import { isZone } from "./rules/times.js";
import { useParam, useView } from "./state.js";
import { spanUntil } from "./usage.js";

export const WORDS: Record<Granularity, string> = {
  PT1M: "Minute",
  PT1H: "Hour",
  P1D: "Day",
  P1M: "Month",
};

/** What the URL says is seen: range, windows, groups, filter. */
export function useSeen(meter: Schemas["Meter"], end: string) {
  const view = useView();
  const [zoneParam] = useParam("zone");
  const zone = isZone(zoneParam) ? zoneParam : view.zone;
  const [span] = useParam("span", "30d");
  const [from] = useParam("from");
  const [to] = useParam("to");
  const [granularityParam] = useParam("by");
  const [group] = useParam("group");
  const [subject] = useParam("subject");
  const [dimension] = useParam("dimension");
  const [is] = useParam("is");
  const seen = useMemo(() => {
    const name = isSpan(span) ? span : "30d";
    const asked: Range | undefined =
      from !== "" && to !== "" && !Number.isNaN(Date.parse(from) + Date.parse(to))
        ? { from: new Date(from).toISOString(), to: new Date(to).toISOString() }
        : undefined;
    const fit = asked ? fitting(asked) : fitting(spanUntil(end, name, "PT1M", zone));
    const wanted = granularityParam as Granularity;
    const usual = asked ? (fit.find((one) => one !== "PT1M") ?? "P1M") : SPANS[name].granularity;
    const granularity = fit.includes(wanted) ? wanted : usual;
    const range = asked
      ? aligned(asked, granularity, zone)
      : spanUntil(end, name, granularity, zone);
    const only: Record<string, string> = dimension !== "" && is !== "" ? { [dimension]: is } : {};
    const filters: Record<string, { eq: string }> = {};
    if (subject !== "") filters["subject"] = { eq: subject };
    for (const [name, value] of Object.entries(only)) filters[name] = { eq: value };
    const groups =
      group === ""
        ? []
        : group
            .split(",")
            .filter((one) => one === "subject" || Object.hasOwn(meter.dimensions, one));
    const query: Schemas["QueryRequest"] = {
      ...range,
      granularity,
      time_zone: zone,
      ...(groups.length > 0 ? { group_by_dimensions: groups } : {}),
      ...(Object.keys(filters).length > 0 ? { filters: { dimensions: filters } } : {}),
    };
    const shown = { zone, span: asked ? "" : name, range, granularity, fit };
    return { ...shown, query, groups, subject, only };
  }, [meter, end, zone, span, from, to, granularityParam, group, subject, dimension, is]);
  return useSame(seen);
}

/** The same object for as long as it says the same: a chart that is looked at is not drawn anew. */
function useSame<T>(value: T): T {
  const last = useRef(value);
  last.current = replaceEqualDeep(last.current, value) as T;
  return last.current;
}

export type Seen = ReturnType<typeof useSeen>;
