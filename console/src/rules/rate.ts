/** What was received in all, when the server said so. */
export type Sample = readonly [atMs: number, received: number];

const SAMPLES = 6;
/** Samples are further apart where a tab was hidden: what was before is not now. */
const SAMPLE_MS = 30_000;

/** The newest samples with one more. */
export function sampled(before: readonly Sample[], next: Sample): readonly Sample[] {
  const recent = before.filter(([atMs]) => atMs < next[0] && next[0] - atMs <= SAMPLE_MS);
  return [...recent, next].slice(-SAMPLES);
}

/** Events a second between the first sample and the last; undefined where that is not known. */
export function rateOf(samples: readonly Sample[]): number | undefined {
  const [first, last] = [samples[0], samples.at(-1)];
  if (first === undefined || last === undefined || first[0] >= last[0]) return undefined;
  return ((last[1] - first[1]) / (last[0] - first[0])) * 1000;
}
