// What was booked, as lines of a file: for each (report, window, subject) the highest revision
// stands.

import { createHash } from "node:crypto";
import {
  appendFileSync,
  closeSync,
  existsSync,
  fstatSync,
  fsyncSync,
  ftruncateSync,
  openSync,
  readFileSync,
  truncateSync,
} from "node:fs";

const ADDITIVE = new Set(["SUM", "COUNT"]); // groups of these may be added up
const DIGITS = 18; // behind the point: all that Meterline has

export class Book {
  #file;
  #ids = new Set();
  #standing = new Map();

  constructor(path) {
    const bytes = existsSync(path) ? readFileSync(path) : Buffer.alloc(0);
    const whole = bytes.lastIndexOf(0x0a) + 1; // what is behind was torn by a crash: not answered
    if (whole < bytes.length) truncateSync(path, whole);
    for (const line of bytes.subarray(0, whole).toString("utf8").split("\n")) {
      if (line) this.#keep(JSON.parse(line));
    }
    this.#file = openSync(path, "a");
  }

  /** Books a delivery durably; what to say of it. */
  take(id, message, body) {
    if (message.run.trigger === "test") return "a test: nothing to book";
    const { from, to, subject } = message.query;
    const row = {
      delivery_id: id,
      report: message.report.slug,
      from,
      to,
      subject,
      revision: message.run.revision,
      value: figure(message), // undefined is not written
      sha256: createHash("sha256").update(body).digest("hex"),
    };
    if (this.#ids.has(id)) return `${id}: a copy, booked before`;
    this.#append(`${JSON.stringify(row)}\n`);
    const words = this.#keep(row) ? "" : " (a later revision stands)";
    const shown = row.value ?? "(groups that cannot be added up)";
    return `${subject} ${shown} for ${from} to ${to}${words}`;
  }

  close() {
    closeSync(this.#file);
  }

  /** Writes a line durably, all of it or nothing: what was not answered is sent again. */
  #append(line) {
    const { size } = fstatSync(this.#file);
    try {
      appendFileSync(this.#file, line); // writeSync may write a part
      fsyncSync(this.#file);
    } catch (error) {
      ftruncateSync(this.#file, size);
      throw error;
    }
  }

  #keep(row) {
    this.#ids.add(row.delivery_id);
    const key = JSON.stringify([row.report, row.from, row.to, row.subject]);
    const stands = row.revision > (this.#standing.get(key) ?? 0);
    if (stands) this.#standing.set(key, row.revision);
    return stands;
  }
}

/** The figure of a delivery: of several groups the sum, if they may be added up. */
function figure({ meter, usage }) {
  if (usage.length > 1 && !ADDITIVE.has(meter.aggregation)) return undefined;
  return sum(usage.map((entry) => entry.valueText));
}

/** The exact sum of decimals in text: numbers of JavaScript are doubles. */
function sum(texts) {
  const total = texts.map(scaled).reduce((one, other) => one + other, 0n);
  const digits = String(total < 0n ? -total : total).padStart(DIGITS + 1, "0");
  const fraction = digits.slice(-DIGITS).replace(/0+$/, "");
  const whole = digits.slice(0, -DIGITS);
  return `${total < 0n ? "-" : ""}${whole}${fraction ? `.${fraction}` : ""}`;
}

function scaled(text) {
  const [, sign, whole, fraction = ""] = /^(-?)(\d+)(?:\.(\d{1,18}))?$/.exec(text);
  return BigInt(`${sign}${whole}${fraction.padEnd(DIGITS, "0")}`);
}
