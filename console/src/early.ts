/** Asks for what the first view shows while the script of the page is on its way: who is signed in,
 * and then the overview, as far as they may see it. It is small, and shares no code with the page,
 * so that nothing is awaited for it.
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

function keep(path: string, answer: Promise<Response>): Promise<Response> {
  answer.catch(() => undefined); // who takes it asks again
  early.set(`${API}${path}`, answer);
  return answer;
}

function ask(path: string): Promise<Response> {
  const signal = AbortSignal.timeout(ANSWER_WITHIN_MS);
  return fetch(`${API}${path}`, { headers: { "Meterline-Console": "1" }, signal });
}

const session = keep("/session", ask("/session"));
if (/^\/(console\/?)?$/.test(location.pathname)) {
  const scopes = session.then(
    async (answer) => ((await answer.clone().json()) as { scopes: readonly string[] }).scopes,
  );
  for (const [scope, path] of OVERVIEW)
    keep(
      path,
      scopes.then((all) => {
        if (!all.includes(scope)) throw new Error(`needs ${scope}`);
        return ask(path);
      }),
    );
}

export {};
