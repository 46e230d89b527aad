/** What arrived in one hour: what is new, what was sent again, and what was refused. */
export interface Hour {
  readonly from: string;
  readonly to: string;
  readonly received: number;
  readonly again: number;
  readonly refused: number;
}

interface Line {
  readonly from: string;
  readonly received: number;
  readonly duplicate: number;
  readonly conflict: number;
  readonly invalid: number;
}

const HOUR_MS = 3_600_000;
const HOURS_SHOWN_MAX = 24 * 31;

/** Every hour of an account, the oldest first, also those in which nothing arrived. */
export function hoursOf(account: {
  readonly from: string;
  readonly to: string;
  readonly data: readonly Line[];
}): readonly Hour[] {
  const sums = new Map<number, { received: number; again: number; refused: number }>();
  for (const line of account.data) {
    const at = Date.parse(line.from);
    const sum = sums.get(at) ?? { received: 0, again: 0, refused: 0 };
    sum.received += line.received;
    sum.again += line.duplicate;
    sum.refused += line.conflict + line.invalid;
    sums.set(at, sum);
  }
  const [begin, end] = [Date.parse(account.from), Date.parse(account.to)];
  const count = Math.min(HOURS_SHOWN_MAX, Math.max(0, Math.round((end - begin) / HOUR_MS)));
  return Array.from({ length: count }, (_, place) => {
    const at = begin + place * HOUR_MS;
    return {
      from: new Date(at).toISOString(),
      to: new Date(at + HOUR_MS).toISOString(),
      ...(sums.get(at) ?? { received: 0, again: 0, refused: 0 }),
    };
  });
}

/** The hour in which most arrived; undefined where nothing did. */
export function busiest(hours: readonly Hour[]): Hour | undefined {
  const most = hours.reduce<Hour | undefined>(
    (found, hour) => (found === undefined || hour.received > found.received ? hour : found),
    undefined,
  );
  return most !== undefined && most.received > 0 ? most : undefined;
}
