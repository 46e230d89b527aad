import { grouped } from "../rules/figures.js";

/** How much more or less something is: `+4`, `-1,200`. */
export function Difference({ of }: { of: string }) {
  if (/^-?0(\.0+)?$/.test(of)) return <span className="muted">0</span>;
  return of.startsWith("-") ? grouped(of) : `+${grouped(of)}`;
}
