import { Webhook, WebhookVerificationError } from "standardwebhooks";

import type { ReportMessage } from "./generated/v3.js";

/** A delivery whose signature is right. */
export interface VerifiedDelivery {
  /** The same for each attempt and each replay: book one id once. */
  readonly id: string;
  /** Its `value`s are doubles; `valueText` is the exact decimal. */
  readonly message: ReportMessage;
}

/** A delivery that must not be processed: answer 400 (contract 4.5 and 7.6). */
export class DeliveryError extends Error {
  constructor(reason: string, options?: ErrorOptions) {
    super(reason, options);
    this.name = "DeliveryError";
  }
}

/** Headers as `fetch`, Node's `http` and most frameworks give them. */
export type DeliveryHeaders = Headers | Readonly<Record<string, string | string[] | undefined>>;

const PARTS = ["id", "timestamp", "signature"] as const;

/**
 * The delivery in a request to a report's endpoint. `body` is the request's as it came: parsed and
 * written anew it has other bytes, and another signature.
 *
 * Both header families are understood, `webhook-*` and `svix-*`. Throws `DeliveryError` if the
 * signature is wrong, is older than five minutes, or the message is no report.
 */
export function verify(
  body: string | Uint8Array,
  headers: DeliveryHeaders,
  signingSecret: string,
): VerifiedDelivery {
  const webhook = new Webhook(signingSecret);
  const text = decoded(body);
  const named = signatureHeaders(headers);
  let message: unknown;
  try {
    message = webhook.verify(text, named);
  } catch (error) {
    if (error instanceof WebhookVerificationError || error instanceof SyntaxError) {
      throw new DeliveryError(error.message, { cause: error });
    }
    throw error;
  }
  if (!isReport(message)) throw new DeliveryError("not a message of type report.meter");
  return { id: named["webhook-id"], message };
}

function decoded(body: string | Uint8Array): string {
  if (typeof body === "string") return body;
  try {
    // strictly: two different bodies must never become one text
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(body);
  } catch (error) {
    throw new DeliveryError("the body is not UTF-8", { cause: error });
  }
}

/** All three headers of one family: a set mixed of both was not sent by anybody. */
function signatureHeaders(headers: DeliveryHeaders) {
  const all = headers instanceof Headers ? [...headers.entries()] : Object.entries(headers);
  const found = new Map(all.map(([name, value]) => [name.toLowerCase(), String(value ?? "")]));
  for (const family of ["webhook", "svix"]) {
    const [id, timestamp, signature] = PARTS.map((part) => found.get(`${family}-${part}`));
    if (id && timestamp && signature) {
      return {
        "webhook-id": id,
        "webhook-timestamp": timestamp,
        "webhook-signature": signature,
      };
    }
  }
  throw new DeliveryError("the request has no signature headers");
}

function isReport(message: unknown): message is ReportMessage {
  return typeof message === "object" && message !== null && "type" in message
    ? message.type === "report.meter"
    : false;
}
