import { randomUUID } from "node:crypto";

import type { MeterlineClient } from "./client.js";
import type { EventRequest } from "./generated/v3.js";
import { ProblemError, unwrap } from "./problem.js";

/** An event as a program says it: what every event must have besides is filled in. */
export type EventInput = Pick<EventRequest, "type" | "subject"> & Partial<EventRequest>;

export interface BatcherOptions {
  /** The `source` of events that name none. With the id it makes an event itself. */
  readonly source: string;
  /** Events of one request at most. */
  readonly eventsMax?: number;
  /** Bytes of one request's body at most; a larger event travels alone. */
  readonly bytesMax?: number;
  /** How long an event waits for others to travel with, in ms. */
  readonly lingerMs?: number;
  /** Requests under way at the same time. */
  readonly requestsMax?: number;
  /** Bytes of events held at most, those under way included; further ones are refused at once. */
  readonly heldBytesMax?: number;
  /** Told of each event that was not accepted, for programs that do not await `add`. */
  readonly onError?: (error: NotAcceptedError) => void;
}

/**
 * An event that was not accepted as far as the client knows; `cause` says why. Adding `event` again
 * is safe whatever became of it: under one source and id it counts once.
 */
export class NotAcceptedError extends Error {
  readonly event: EventRequest;

  constructor(event: EventRequest, cause: unknown) {
    super(`event ${event.id}: ${cause instanceof Error ? cause.message : String(cause)}`, {
      cause,
    });
    this.name = "NotAcceptedError";
    this.event = event;
  }
}

interface Pending {
  readonly event: EventRequest;
  readonly text: string;
  readonly bytes: number;
  readonly accept: () => void;
  readonly refuse: (cause: unknown) => void;
  readonly settled: Promise<void>;
}

const ENCODER = new TextEncoder();
const FRAME_BYTES = 2; // the brackets; each event has its comma in its own count

/**
 * Sends events in batches. Every event's fate is told: `add` gives a promise that is fulfilled when
 * the event is durable on the server, and rejected with an `NotAcceptedError` if it is not. Call `close`
 * before the program ends.
 */
export class EventBatcher {
  readonly #client: MeterlineClient;
  readonly #options: Required<Omit<BatcherOptions, "onError">>;
  readonly #onError: ((error: NotAcceptedError) => void) | undefined;
  readonly #held = new Set<Pending>();
  #heldBytes = 0;
  #waiting: Pending[] = [];
  #waitingBytes = FRAME_BYTES;
  #ready: Pending[][] = [];
  #underWay = 0;
  #timer: NodeJS.Timeout | undefined;
  #closed = false;

  constructor(client: MeterlineClient, options: BatcherOptions) {
    const { onError, ...bounds } = options;
    this.#client = client;
    this.#onError = onError;
    this.#options = {
      eventsMax: 500,
      bytesMax: 900_000,
      lingerMs: 100,
      requestsMax: 4,
      heldBytesMax: 64 * 1024 * 1024,
      ...bounds,
    };
  }

  /**
   * Take an event. `id`, `source` and `time` are filled in where they are missing, and are the same
   * however often the event is sent. It is copied: changing the object afterwards changes nothing.
   */
  add(input: EventInput): Promise<void> {
    const event: EventRequest = {
      ...input,
      specversion: "1.0",
      id: input.id ?? randomUUID(),
      source: input.source ?? this.#options.source,
      time: input.time ?? new Date().toISOString(),
    };
    const { one, unsendable } = this.#pending(event);
    if (unsendable !== undefined) one.refuse(unsendable);
    else this.#hold(one);
    return one.settled;
  }

  /** Send what waits; fulfilled when the fate of every event added so far is known. */
  async flush(): Promise<void> {
    this.#cut();
    await Promise.allSettled([...this.#held].map((one) => one.settled));
  }

  /** `flush`, and take no more. */
  async close(): Promise<void> {
    this.#closed = true;
    await this.flush();
  }

  /** The event as it will be sent, and why it cannot be, if so. */
  #pending(event: EventRequest): { one: Pending; unsendable: unknown } {
    let text = "";
    let unsendable: unknown;
    try {
      text = JSON.stringify(event);
      event = JSON.parse(text) as EventRequest;
    } catch (error) {
      unsendable = error;
    }
    const bytes = ENCODER.encode(text).length + 1;
    if (this.#closed) {
      unsendable = new Error("the batcher is closed");
    } else if (this.#heldBytes + bytes > this.#options.heldBytesMax) {
      unsendable = new Error(`${this.#heldBytes} bytes of events are held: wait, or add less`);
    }
    let accept!: () => void;
    let reject!: (error: NotAcceptedError) => void;
    const settled = new Promise<void>((resolve, refuse) => {
      accept = resolve;
      reject = refuse;
    });
    const refuse = (cause: unknown) => {
      reject(new NotAcceptedError(event, cause));
    };
    const onError = this.#onError;
    if (onError) settled.catch(onError); // told there, so nobody has to await the promise
    return { one: { event, text, bytes, accept, refuse, settled }, unsendable };
  }

  #hold(one: Pending): void {
    this.#held.add(one);
    this.#heldBytes += one.bytes;
    if (this.#waitingBytes + one.bytes > this.#options.bytesMax) this.#cut();
    this.#waiting.push(one);
    this.#waitingBytes += one.bytes;
    if (this.#waiting.length >= this.#options.eventsMax) this.#cut();
    else this.#timer ??= setTimeout(() => this.#cut(), this.#options.lingerMs);
  }

  /** What waits becomes a batch. */
  #cut(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#waiting.length > 0) this.#ready.push(this.#waiting);
    this.#waiting = [];
    this.#waitingBytes = FRAME_BYTES;
    this.#start();
  }

  #start(): void {
    while (this.#underWay < this.#options.requestsMax) {
      const batch = this.#ready.shift();
      if (batch === undefined) return;
      this.#underWay++;
      void this.#send(batch).finally(() => {
        this.#underWay--;
        this.#start();
      });
    }
  }

  /** Send a batch until every event of it is accepted or refused. Never rejects. */
  async #send(batch: readonly Pending[]): Promise<void> {
    const parts = [batch];
    for (let part = parts.pop(); part !== undefined; part = parts.pop()) {
      try {
        await this.#post(part);
        this.#settle(part, (one) => one.accept());
      } catch (error) {
        const faulty = faultyPlaces(error, part.length);
        if (faulty.size > 0) {
          // a batch is taken whole or not at all: the faulty ones must not take others with them
          this.#settle(
            part.filter((_, place) => faulty.has(place)),
            (one) => one.refuse(error),
          );
          const rest = part.filter((_, place) => !faulty.has(place));
          if (rest.length > 0) parts.push(rest);
        } else if (part.length > 1 && error instanceof ProblemError && error.status === 413) {
          const middle = Math.ceil(part.length / 2);
          parts.push(part.slice(middle), part.slice(0, middle));
        } else {
          this.#settle(part, (one) => one.refuse(error));
        }
      }
    }
  }

  async #post(part: readonly Pending[]): Promise<void> {
    const body = `[${part.map((one) => one.text).join(",")}]`;
    const outcome = await this.#client.POST("/api/v3/metering/events", {
      headers: { "Content-Type": "application/cloudevents-batch+json" },
      body: part.map((one) => one.event),
      bodySerializer: () => body,
    });
    unwrap(outcome);
    // nothing but the API answers so: a success of something on the way says nothing
    if (outcome.response.status !== 202) throw new ProblemError(outcome.response.status, undefined);
  }

  #settle(part: readonly Pending[], settle: (one: Pending) => void): void {
    for (const one of part) {
      this.#held.delete(one);
      this.#heldBytes -= one.bytes;
      settle(one);
    }
  }
}

/** The places, from 0, of the events that a problem names. */
function faultyPlaces(error: unknown, length: number): ReadonlySet<number> {
  if (!(error instanceof ProblemError)) return new Set();
  const places = (error.problem?.invalid_parameters ?? []).map((one) => one.index);
  return new Set(places.filter((place) => place !== undefined && place < length) as number[]);
}
