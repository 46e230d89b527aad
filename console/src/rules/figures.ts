/** Decimal text with its digits in groups of three: exact, never by way of a float. */
export function grouped(value: string): string {
  const found = /^(-?)(\d+)(\.\d+)?$/.exec(value);
  if (found === null) return value; // what is no plain decimal is shown as it is
  const [, sign = "", whole = "", fraction = ""] = found;
  return sign + whole.replace(/\B(?=(\d{3})+$)/g, ",") + fraction;
}

/** The sum of decimal texts: exact, never by way of a float. */
export function sumOf(values: readonly string[]): string {
  const digits = Math.max(0, ...values.map((value) => (value.split(".")[1] ?? "").length));
  const total = values.reduce((sum, value) => {
    const [whole = "", fraction = ""] = value.split(".");
    return sum + BigInt(whole + fraction.padEnd(digits, "0"));
  }, 0n);
  const text = String(total < 0n ? -total : total).padStart(digits + 1, "0");
  const place = text.length - digits;
  const fraction = text.slice(place).replace(/0+$/, "");
  return (total < 0n ? "-" : "") + text.slice(0, place) + (fraction && `.${fraction}`);
}

const STEPS = [
  [1e12, "T"],
  [1e9, "G"],
  [1e6, "M"],
  [1e3, "k"],
] as const;

/** A short form for axes and tiles, three digits: 12.3k. Not exact; the exact one stands beside it. */
export function short(value: number): string {
  const size = Math.abs(value);
  for (const [step, letter] of STEPS) {
    if (size >= step) return trimmed(value / step) + letter;
  }
  return trimmed(value);
}

function trimmed(value: number): string {
  return Number(value.toPrecision(3)).toString();
}

/** The share of a part in percent, in words: never "100 %" or "0 %" where it is not so. */
export function share(part: number, whole: number): string {
  if (whole === 0 || part === 0) return "0 %";
  if (part === whole) return "100 %";
  const percent = (100 * part) / whole;
  if (percent < 0.1) return "< 0.1 %";
  if (percent > 99.9) return "> 99.9 %";
  return `${percent.toFixed(1)} %`;
}

/** The change from one decimal to another in percent with its sign; undefined where there was nothing. */
export function change(before: string | undefined, now: string | undefined): string | undefined {
  const [from, to] = [Number(before ?? "0"), Number(now ?? "0")];
  if (!Number.isFinite(from) || !Number.isFinite(to) || from === 0) return undefined;
  const percent = (100 * (to - from)) / Math.abs(from);
  return `${percent > 0 ? "+" : ""}${percent.toFixed(1)} %`;
}

/** Values of dimensions: `region=north, tier=(empty)`; `none` where an entry has none. */
export function dimensions(of: Readonly<Record<string, string>>): string {
  const named = Object.entries(of).map(([name, value]) => `${name}=${value || "(empty)"}`);
  return named.join(", ") || "none";
}

/** One or many: `1 event`, `2,000 events`. */
export function many(count: number, one: string, more = `${one}s`): string {
  return `${grouped(String(count))} ${count === 1 ? one : more}`;
}

/** Events a second. Little is not nothing. */
export function rateText(rate: number): string {
  if (rate > 0 && rate < 0.1) return "< 0.1";
  return grouped(rate.toFixed(rate > 0 && rate < 10 ? 1 : 0));
}
