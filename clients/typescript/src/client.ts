import createFetchClient, { type Client } from "openapi-fetch";

import type { paths } from "./generated/v3.js";
import { queryString } from "./query.js";
import { RETRY_POLICY, retrying, type Fetch, type RetryPolicy } from "./retry.js";

export interface ClientOptions {
  /** Where the server is, without a path of the API: `https://meterline.example`. */
  readonly baseUrl: string;
  /** Sent as `Authorization: Bearer`. Keep it on servers: never in browsers, apps or logs. */
  readonly apiKey?: string;
  /** What differs from `RETRY_POLICY`. */
  readonly retry?: Partial<RetryPolicy>;
  /** Instead of the platform's own `fetch`. */
  readonly fetch?: Fetch;
}

/** What answers are typed as; for a table ask with `Accept: text/csv` and `parseAs: "text"`. */
type Media = "application/json" | "application/problem+json";

/** The operations of the API by path and method, typed by its OpenAPI document. */
export type MeterlineClient = Client<paths, Media>;

/** A client. Requests that fail for a while are sent again (`RetryPolicy`). */
export function createClient(options: ClientOptions): MeterlineClient {
  return createFetchClient<paths, Media>({
    baseUrl: options.baseUrl.replace(/\/+$/, ""),
    headers: options.apiKey === undefined ? {} : { Authorization: `Bearer ${options.apiKey}` },
    fetch: retrying({ ...RETRY_POLICY, ...options.retry }, options.fetch),
    querySerializer: queryString,
  });
}
