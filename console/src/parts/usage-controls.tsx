import { memo, useMemo } from "react";

import { api, unwrap, type Schemas } from "../api.js";
import { SPANS, type Range } from "../rules/range.js";
import { WORDS, type Seen } from "../seen.js";
import { setParams, useApi, useParam, useView } from "../state.js";
import { Choice, Name } from "./basics.js";
import { RangePicker } from "./range-picker.js";

/** What is chosen of a meter's usage: all of it lies in the URL. */
export const Controls = memo(function Controls({
  meter,
  seen,
}: {
  meter: Schemas["Meter"];
  seen: Seen;
}) {
  const [compare, setCompare] = useParam("compare");
  const [group, setGroup] = useParam("group");
  const [dimension] = useParam("dimension");
  const [is] = useParam("is");
  const dimensions = ["subject", ...Object.keys(meter.dimensions)];
  const values = useApi(
    ["values", meter.key, dimension, seen.range],
    async () =>
      unwrap(
        await api.GET("/api/v3/metering/meters/{meterId}/dimensions/{dimension}/values", {
          params: {
            path: { meterId: meter.key, dimension },
            query: { ...seen.range, page: { size: 100 } },
          },
        }),
      ),
    undefined,
    dimension !== "",
  );
  return (
    <div className="filters">
      <Choice
        label="Span"
        value={seen.span}
        set={(span) => setParams({ span, from: "", to: "" })}
        options={[
          ...(seen.span === "" ? [["", "chosen"] as const] : []),
          ...Object.entries(SPANS).map(([name, { words }]) => [name, words] as const),
        ]}
      />
      <RangePicker range={seen.range} zone={seen.zone} set={setRange} />
      <Choice
        label="By"
        value={seen.granularity}
        set={(by) => setParams({ by })}
        options={seen.fit.map((one) => [one, WORDS[one]] as const)}
      />
      <Zones zone={seen.zone} />
      <Choice
        label="Group by"
        value={group}
        set={setGroup}
        options={[["", "nothing"], ...dimensions.map((one) => [one, one] as const)]}
      />
      {Object.keys(meter.dimensions).length > 0 && (
        <Choice
          label="Only where"
          value={dimension}
          set={(name) => setParams({ dimension: name, is: "" })}
          options={[
            ["", "everything"],
            ...Object.keys(meter.dimensions).map((one) => [one, one] as const),
          ]}
        />
      )}
      {dimension !== "" && (
        <Choice
          label="is"
          value={is}
          set={(value) => setParams({ is: value })}
          options={[
            ["", "…"],
            ...[...new Set([...(is ? [is] : []), ...(values.data?.data ?? [])])].map(
              (one) => [one, one] as const,
            ),
          ]}
        />
      )}
      {seen.subject !== "" && (
        <button type="button" className="button" onClick={() => setParams({ subject: "" })}>
          Only <Name>{seen.subject}</Name> ✕
        </button>
      )}
      <Choice
        label="Compare with"
        value={compare}
        set={setCompare}
        options={[
          ["", "nothing"],
          ["before", "period before"],
        ]}
      />
    </div>
  );
});

function setRange(range: Range): void {
  setParams({ ...range, span: "" });
}

/** The zones of the world are some 400: they are drawn anew only where another one is chosen. */
const Zones = memo(function Zones({ zone }: { zone: string }) {
  const { own } = useView();
  const options = useMemo(() => {
    const names = new Set(["UTC", own, zone, ...Intl.supportedValuesOf("timeZone")]);
    return [...names].map((name) => [name, name] as const);
  }, [own, zone]);
  return (
    <Choice
      label="Zone of days"
      value={zone}
      set={(chosen) => setParams({ zone: chosen })}
      options={options}
    />
  );
});
