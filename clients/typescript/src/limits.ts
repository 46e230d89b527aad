/** How the caller stands under one limit of its plan, as of the answer it came with. */
export interface RateLimit {
  /** `requests` or `events`. */
  readonly name: string;
  /** Units in `windowSeconds`. */
  readonly quota: number;
  /** The quota fills up evenly over this time. */
  readonly windowSeconds: number;
  /** Units left. */
  readonly remaining: number;
  /** Until the whole quota is there again; after a 429, until one unit is. */
  readonly resetSeconds: number;
}

/**
 * The limits of the plan of the API key, from the headers `RateLimit-Policy` and `RateLimit` of an
 * answer, in the server's order; none where there are none.
 *
 *     const { response } = await client.GET("/api/v3/metering/meters");
 *     for (const limit of rateLimits(response.headers)) ...
 */
export function rateLimits(headers: Headers): RateLimit[] {
  const left = new Map(membersOf(headers.get("RateLimit")));
  return membersOf(headers.get("RateLimit-Policy")).flatMap(([name, policy]) => {
    const state = left.get(name);
    if (state === undefined) return [];
    return {
      name,
      quota: policy.get("q") ?? 0,
      windowSeconds: policy.get("w") ?? 0,
      remaining: state.get("r") ?? 0,
      resetSeconds: state.get("t") ?? 0,
    };
  });
}

/** The members of a structured list: a quoted name and its numbers. */
function membersOf(value: string | null): [string, Map<string, number>][] {
  const members = (value ?? "").matchAll(/"([^"]*)"((?:\s*;\s*[a-z]+=\d+)*)/g);
  return [...members].map(([, name = "", parameters = ""]) => [
    name,
    new Map(
      [...parameters.matchAll(/([a-z]+)=(\d+)/g)].map(([, key = "", number]) => [
        key,
        Number(number),
      ]),
    ),
  ]);
}
