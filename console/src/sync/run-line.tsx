import type { Schemas } from "../api.js";
import { toneOf } from "../parts/basics.js";
import { many } from "../rules/figures.js";
import { useView } from "../state.js";

/** Runs along time, the oldest first, one block each; a gap where windows lie apart. The table below
 * says the same in words.
 */
export function RunLine({ runs }: { runs: readonly Schemas["Run"][] }) {
  const { time } = useView();
  const line = [...runs].sort((a, b) => a.from.localeCompare(b.from) || a.revision - b.revision);
  const [first, last] = [line[0], line.at(-1)];
  if (first === undefined || last === undefined || line.length < 2) return null;
  const failed = line.filter((run) => toneOf(run.state) === "bad").length;
  const words = `${many(line.length, "run")} along time, ${failed} of them failed`;
  return (
    <div className="run-line">
      <div role="img" aria-label={words}>
        {line.map((run, place) => (
          <span
            key={run.id}
            className={`run ${toneOf(run.state)}${apart(line[place - 1], run) ? " gap" : ""}`}
            title={`${time(run.from, "minute")} – ${time(run.to, "minute")}: ${run.state.replaceAll("_", " ")}`}
          />
        ))}
      </div>
      <div className="row" aria-hidden="true">
        <span>{time(first.from, "minute")}</span>
        <span>{time(last.to, "minute")}</span>
      </div>
    </div>
  );
}

function apart(before: Schemas["Run"] | undefined, run: Schemas["Run"]): boolean {
  return before !== undefined && before.to < run.from;
}
