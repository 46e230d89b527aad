import { grouped, many } from "../rules/figures.js";
import { busiest, type Hour } from "../rules/hours.js";
import { useView } from "../state.js";

/** What arrived hour by hour, one bar each. The sentence below says the same in words. */
export function HourBars({ hours }: { hours: readonly Hour[] }) {
  const { time } = useView();
  const most = busiest(hours);
  const [first, last] = [hours[0], hours.at(-1)];
  if (most === undefined || first === undefined || last === undefined || hours.length < 2)
    return null;
  const height = (count: number) => `${(100 * count) / most.received}%`;
  const perSecond = (most.received / 3600).toFixed(most.received < 36_000 ? 1 : 0);
  const words = `Most in an hour: ${many(most.received, "event")} from ${time(most.from, "minute")} on, about ${grouped(perSecond)} a second.`;
  return (
    <div className="hour-bars">
      <div role="img" aria-label={`Events received by hour. ${words}`}>
        {hours.map((hour) => (
          <span key={hour.from} title={told(hour, time(hour.from, "minute"))}>
            {partsOf(hour).map(([verdict, count]) => (
              <i key={verdict} className={verdict} style={{ blockSize: height(count) }} />
            ))}
          </span>
        ))}
      </div>
      <div className="row" aria-hidden="true">
        <span>{time(first.from, "minute")}</span>
        <span>{time(last.to, "minute")}</span>
      </div>
      <p className="muted">{words}</p>
    </div>
  );
}

/** From the top down, without what is none. */
function partsOf(hour: Hour): readonly (readonly [string, number])[] {
  const counted = hour.received - hour.again - hour.refused;
  const all = [
    ["refused", hour.refused],
    ["again", hour.again],
    ["new", counted],
  ] as const;
  return all.filter(([, count]) => count > 0);
}

function told(hour: Hour, from: string): string {
  const more = [
    hour.again > 0 ? `${grouped(String(hour.again))} sent again` : "",
    hour.refused > 0 ? `${grouped(String(hour.refused))} refused` : "",
  ].filter(Boolean);
  return [`${from}: ${many(hour.received, "event")}`, ...more].join(", ");
}
