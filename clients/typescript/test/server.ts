import { createServer, type IncomingHttpHeaders } from "node:http";
import type { AddressInfo } from "node:net";

export interface Asked {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
  readonly atMs: number;
}

export interface Answer {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
  /** Break the connection instead, after the headers if there is a status. */
  readonly broken?: boolean;
}

export interface TestServer {
  readonly url: string;
  readonly asked: Asked[];
}

/** Serves `answer(request, count)` while `use` runs; count is from 1. */
export async function serving(
  answer: (asked: Asked, count: number) => Answer,
  use: (server: TestServer) => Promise<void>,
): Promise<void> {
  const asked: Asked[] = [];
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      const one = {
        method: request.method ?? "",
        url: request.url ?? "",
        headers: request.headers,
        body: Buffer.concat(chunks).toString(),
        atMs: performance.now(),
      };
      asked.push(one);
      const { status, headers = {}, body = "", broken = false } = answer(one, asked.length);
      if (!broken) {
        response.writeHead(status, { "Content-Length": Buffer.byteLength(body), ...headers });
        response.end(body);
      } else if (status === 0) {
        request.socket.destroy();
      } else {
        response.writeHead(status, { "Content-Length": "1000" });
        response.write(body, () => request.socket.destroy());
      }
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  try {
    await use({ url: `http://127.0.0.1:${port}`, asked });
  } finally {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
}

export const PROBLEM = { "Content-Type": "application/problem+json" };

export function problem(status: number, type: string, more: object = {}): string {
  const instance = "urn:request:01M7ZMF4YA7D2SQ292V0W9JPT8";
  const urn = `urn:meterline:problem:${type}`;
  return JSON.stringify({ type: urn, title: type, status, detail: "words", instance, ...more });
}
