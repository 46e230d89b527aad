// A receiver of Meterline's deliveries: verifies each, books it once, prints what it booked.
//
// README.md beside this file says how to run it. SIGNING_SECRET, PORT, BOOK and LIBRARY are its
// settings.

import { createServer } from "node:http";
import process from "node:process";

import { Book } from "./book.mjs";

// Which of the two families of headers each library is given: always the three of one family, so
// that the id that is booked is the id that was verified.
const FAMILIES = { svix: "svix", standardwebhooks: "webhook" };
const BODY_BYTES_MAX = 8 * 1024 * 1024; // Meterline's own bound

class NotVerified extends Error {}

/** Gives id and message of a delivery, or throws `NotVerified`. */
function verified(webhook, family, headers, body) {
  const names = ["id", "timestamp", "signature"].map((part) => `${family}-${part}`);
  const signed = Object.fromEntries(names.map((name) => [name, String(headers[name] ?? "")]));
  let message;
  try {
    // strictly: two different bodies must never become one text
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(body);
    webhook.verify(text, signed);
    message = JSON.parse(text);
  } catch (error) {
    throw new NotVerified(error.message); // a bad signature has many faces
  }
  if (message?.type !== "report.meter") throw new NotVerified("not of type report.meter");
  return [signed[names[0]], message];
}

async function bodyOf(request) {
  const chunks = [];
  let size = 0;
  for await (const chunk of request) {
    size += chunk.length;
    if (size > BODY_BYTES_MAX) return null;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks); // as it came: parsed and written anew it is another
}

async function statusOf(request, webhook, family, book) {
  if (request.method !== "POST") return 405;
  const body = await bodyOf(request);
  if (body === null) return 413;
  try {
    const [id, message] = verified(webhook, family, request.headers, body);
    console.log(book.take(id, message, body));
    return 204;
  } catch (error) {
    // a TypeError: a message that lacks a member
    if (!(error instanceof NotVerified || error instanceof TypeError)) throw error;
    console.log(`refused: ${error.message}`);
    return 400;
  }
}

const secret = process.env.SIGNING_SECRET ?? "";
if (!secret.replace(/^whsec_/, "")) {
  console.error("SIGNING_SECRET is empty: with an empty key anybody can sign");
  process.exit(1);
}
const library = process.env.LIBRARY ?? "svix";
const port = Number(process.env.PORT ?? 9000);
const { Webhook } = await import(library);
const webhook = new Webhook(secret);
const book = new Book(process.env.BOOK ?? "booked.ndjson");

createServer(async (request, response) => {
  let status = 500;
  try {
    status = await statusOf(request, webhook, FAMILIES[library], book);
  } catch (error) {
    console.error(error); // not booked: it is sent again
  }
  const headers = status === 405 ? { Allow: "POST" } : {};
  if (status === 413) headers.Connection = "close";
  response.writeHead(status, headers).end();
}).listen(port, "127.0.0.1", () => console.log(`listening on http://127.0.0.1:${port}/`));
