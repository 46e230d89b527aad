import type { Problem } from "./generated/v3.js";

/**
 * An answer that is no success. Branch on `status` and `type`, log `instance`; `detail` is for people
 * (contract 7.3).
 */
export class ProblemError extends Error {
  readonly status: number;
  /** The whole document; `undefined` if what answered was not the API, a proxy for instance. */
  readonly problem: Problem | undefined;

  constructor(status: number, body: unknown) {
    const problem = isProblem(body) ? body : undefined;
    super(problem ? `${status} ${problem.type}: ${problem.detail}` : `${status} without a problem`);
    this.name = "ProblemError";
    this.status = status;
    this.problem = problem;
  }

  /** The stable problem type, a URI; `about:blank` where there is none. */
  get type(): string {
    return this.problem?.type ?? "about:blank";
  }

  /** What identifies the request in the logs of both sides. */
  get instance(): string | undefined {
    return this.problem?.instance;
  }
}

/** What calls of the client give. */
export interface Outcome<T> {
  readonly data?: T;
  readonly error?: unknown;
  readonly response: Response;
}

/** The data of a call. Throws `ProblemError` where the answer is no success. */
export function unwrap<T>(outcome: Outcome<T>): T {
  const { response } = outcome;
  if (!response.ok) throw new ProblemError(response.status, outcome.error);
  return outcome.data as T; // undefined where the operation answers without a body, as typed
}

function isProblem(body: unknown): body is Problem {
  if (typeof body !== "object" || body === null) return false;
  return "type" in body && typeof body.type === "string" && "status" in body && "detail" in body;
}
