/** Asks for what the first view shows while the script of the page is on its way: who is signed in,
 * and the overview, as far as they may see it, which the server wrote into the page. So one need not
 * wait for the other. It is small, and shares no code with the page, so that nothing waits for it.
 */
const API = "/api/v3/metering";
const ANSWER_WITHIN_MS = 60_000;
const OVERVIEW: readonly (readonly [scope: string, path: string])[] = [
  ["status:read", "/status"],
  ["usage:read", "/accounts?meters=false"],
  ["reports:read", "/reports?page[size]=100"],
];

declare global {
  interface Window {
    /** Answers that were asked for before the page's script was here, by path and query. */
    meterlineEarly?: Map<string, Promise<Response>>;
  }
}

const early = new Map<string, Promise<Response>>();
window.meterlineEarly = early;

/** Asks for a path, and keeps the answer. */
function keep(path: string): void {
  const signal = AbortSignal.timeout(ANSWER_WITHIN_MS);
  const answer = fetch(`${API}${path}`, { headers: { "Meterline-Console": "1" }, signal });
  answer.catch(() => undefined); // who takes it asks again
  early.set(`${API}${path}`, answer);
}

const told = document.querySelector<HTMLMetaElement>('meta[name="meterline-scopes"]')?.content;
keep("/session");
if (/^\/(console\/?)?$/.test(location.pathname))
  for (const [scope, path] of OVERVIEW) if (told?.split(" ").includes(scope)) keep(path);

export {};
