import { useEffect, useRef } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";

import { grouped, short } from "../rules/figures.js";
import type { Series } from "../rules/series.js";
import { useLook } from "../state.js";
import { written, type Exactness } from "../rules/times.js";

const COLOURS = {
  light: ["#1f5fd0", "#0b7a75", "#b4510f", "#7a3fb0", "#a8231a", "#5c6b00"],
  dark: ["#7db0ff", "#5fd6cf", "#ffb066", "#cfa4ff", "#ff9d94", "#cbdc5a"],
};

type Points = Pick<Series, "values" | "texts">;

interface Drawn {
  readonly starts: readonly number[];
  readonly series: readonly Series[];
  /** The period before, at the same places. */
  readonly before?: Points | undefined;
  readonly label: string;
  readonly exactness: Exactness;
  /** Whose midnights the axis is marked at. */
  readonly zone: string;
  /** Asked where a window is clicked, with its place. The table offers the same by keyboard. */
  readonly pick: (index: number) => void;
}

/** Usage over time. Whoever cannot see it has the table below, with the same numbers. */
export function Chart(drawn: Drawn) {
  const place = useRef<HTMLDivElement>(null);
  const { theme } = useLook();
  const pick = useRef(drawn.pick);
  pick.current = drawn.pick;
  const { starts, series, before, exactness, zone } = drawn;
  useEffect(() => {
    const element = place.current;
    if (element === null) return undefined;
    const plot = new uPlot(
      options(element.clientWidth, series, before, zone, (ms) =>
        written(new Date(ms).toISOString(), zone, exactness),
      ),
      dataOf(starts, series, before),
      element,
    );
    const size = new ResizeObserver(() =>
      plot.setSize({ width: element.clientWidth, height: 260 }),
    );
    size.observe(element);
    const click = () => plot.cursor.idx != null && pick.current(plot.cursor.idx);
    plot.over.addEventListener("click", click);
    return () => {
      size.disconnect();
      plot.destroy();
    };
  }, [starts, series, before, theme, zone, exactness]);
  return <div ref={place} className="chart" role="img" aria-label={drawn.label} />;
}

function dataOf(
  starts: readonly number[],
  series: readonly Series[],
  before: Drawn["before"],
): uPlot.AlignedData {
  const lines = series.map((one) => [...one.values]);
  const compared = before === undefined ? [] : [[...before.values]];
  return [starts.map((ms) => ms / 1000), ...compared, ...lines];
}

/** From 0 on, also where all lies below it. */
function reach(low: number | null, high: number | null): [number, number] {
  const [least, most] = [Math.min(0, low ?? 0), Math.max(0, high ?? 0)];
  return [least * 1.05, least === 0 && most === 0 ? 1 : most * 1.05];
}

/** What the legend says of the place under the cursor: the exact value. */
function told(of: Points): uPlot.Series.Value {
  return (_, __, ___, at) => {
    if (at == null) return "";
    const text = of.texts[at];
    return text == null ? "none" : grouped(text);
  };
}

/** Marks of an axis; one that says the same as the one before it is left empty. */
function marks(words: readonly string[]): string[] {
  return words.map((one, place) => (one === words[place - 1] ? "" : one));
}

function options(
  width: number,
  series: readonly Series[],
  compared: Points | undefined,
  zone: string,
  when: (ms: number) => string,
): uPlot.Options {
  const style = getComputedStyle(document.documentElement);
  const dark =
    style.colorScheme === "dark" ||
    (style.colorScheme !== "light" && matchMedia("(prefers-color-scheme: dark)").matches);
  const colours = dark ? COLOURS.dark : COLOURS.light;
  const [ink, line] = dark ? ["#a0a9b6", "#2c323b"] : ["#566072", "#e4e7ec"];
  const axis: uPlot.Axis = {
    stroke: ink,
    grid: { stroke: line, width: 1 },
    ticks: { stroke: line, width: 1 },
    font: "12px system-ui, sans-serif",
  };
  return {
    width,
    height: 260,
    padding: [8, 44, 0, 0],
    tzDate: (at) => uPlot.tzDate(new Date(at * 1000), zone),
    cursor: { y: false, points: { size: 7 } },
    scales: {
      x: { time: true },
      y: {
        range: (_, low, high) => reach(low, high),
      },
    },
    axes: [
      { ...axis, space: 110, values: (_, ticks) => marks(ticks.map((at) => when(at * 1000))) },
      { ...axis, size: 56, values: (_, ticks) => ticks.map(short) },
    ],
    series: [
      {
        label: "Window",
        value: (_, at) => (at == null ? "(point at the chart)" : when(at * 1000)),
      },
      ...(compared
        ? [
            {
              label: "period before",
              value: told(compared),
              stroke: ink,
              dash: [5, 5],
              width: 1.5,
              points: { show: false },
            },
          ]
        : []),
      ...series.map((one, index) => ({
        label: one.label,
        stroke: colours[index] as string,
        width: 2,
        ...(series.length === 1 ? { fill: `${colours[index]}1f` } : {}),
        points: { show: one.values.length <= 60, size: 5 },
        value: told(one),
      })),
    ],
  };
}
