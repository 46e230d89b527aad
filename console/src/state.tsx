import { hashKey, useQuery, useQueryClient, type UseQueryResult } from "@tanstack/react-query";
import {
  createContext,
  useCallback,
  useContext,
  useEffect,
  useLayoutEffect,
  useMemo,
  useState,
  useSyncExternalStore,
  type ReactNode,
} from "react";
import { useSearch } from "wouter";
import { navigate } from "wouter/use-browser-location";

import { met, ProblemError, readSession, renewSession, Unreached, type Session } from "./api.js";
import { written, type Exactness } from "./rules/times.js";

/** How often what is live is asked for. Nothing is asked while the tab is hidden. */
export const LIVE_MS = 3000;
export const SLOW_MS = 15_000;

/** An answer of the API, kept by its key; asked again every so often if `every` is given. Until there
 * is one, that of a key with the same two first parts is shown: of the page of a list before, so that
 * the way to the next one keeps the focus.
 */
export function useApi<T>(
  key: readonly unknown[],
  ask: () => Promise<T>,
  every?: number,
  enabled = true,
): UseQueryResult<T> {
  return useQuery({
    queryKey: key,
    queryFn: ask,
    enabled,
    refetchInterval: (query) => (isRefused(query.state.error) ? false : (every ?? false)),
    placeholderData: (last: T | undefined, query) =>
      (query !== undefined && hashKey(query.queryKey.slice(0, 2)) === hashKey(key.slice(0, 2))
        ? last
        : undefined) as never,
    retry: (count, error) => count < 2 && isPassing(error),
    retryDelay: (count) => Math.max(1000 * 2 ** count, met.limitedUntilMs - Date.now()),
  });
}

/** Whether to ask again at once may help. Who is not there at all is asked for by the shell. */
function isPassing(error: unknown): boolean {
  if (error instanceof Unreached) return false;
  return !(error instanceof ProblemError) || error.status >= 500 || error.status === 429;
}

/** Whether the server refused it, and would again: that stands until somebody tries again. What is
 * not there may still come, as an event does that was just sent.
 */
function isRefused(error: unknown): boolean {
  return error instanceof ProblemError && !isPassing(error) && error.status !== 404;
}

function hearMet(hear: () => void): () => void {
  met.heard.add(hear);
  return () => met.heard.delete(hear);
}

/** Whether the server does not answer, which the shell says then. */
export function useAway(): boolean {
  return !useSyncExternalStore(hearMet, () => met.answered);
}

/** Whether the server answers. While it does not, it is asked for, and all is asked anew when it is back. */
export function useAnswered(): boolean {
  const client = useQueryClient();
  const answered = !useAway();
  useEffect(() => {
    if (answered) return undefined;
    const timer = setInterval(() => {
      if (!document.hidden) void client.refetchQueries({ queryKey: ["session"] });
    }, LIVE_MS);
    return () => {
      clearInterval(timer);
      void client.invalidateQueries();
    };
  }, [answered, client]);
  return answered;
}

/** One parameter of the URL. What is not said in the URL is the default, and the default is not said. */
export function useParam(name: string, otherwise = ""): [string, (value: string) => void] {
  const search = useSearch();
  const set = useCallback(
    (value: string) => setParams({ [name]: value === otherwise ? "" : value }),
    [name, otherwise],
  );
  return [new URLSearchParams(search).get(name) ?? otherwise, set];
}

/** Set several parameters at once; empty ones are taken out. Each change is a step back for the browser.
 * It reads the URL when it is called: a button that sets one need not be drawn anew with each change.
 */
export function setParams(changes: Record<string, string>): void {
  const params = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(changes)) {
    if (value === "") params.delete(name);
    else params.set(name, value);
  }
  const text = params.toString();
  navigate(text === "" ? location.pathname : `${location.pathname}?${text}`);
}

export function stored(name: string): string | null {
  try {
    return localStorage.getItem(name);
  } catch {
    return null; // storage may be forbidden; the page works without
  }
}

export function store(name: string, value: string): void {
  try {
    localStorage.setItem(name, value);
  } catch {
    // as above
  }
}

export type Theme = "auto" | "light" | "dark";
const OWN_ZONE = Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";

interface Look {
  readonly theme: Theme;
  readonly setTheme: (theme: Theme) => void;
}

interface View {
  readonly zone: string;
  readonly own: string;
  readonly setZone: (zone: string) => void;
  readonly time: (instant: string, to?: Exactness) => string;
}

const LookContext = createContext<Look | undefined>(undefined);
const ViewContext = createContext<View | undefined>(undefined);

/** How this viewer looks at things: theme and zone, kept by the browser. */
export function ViewProvider({ children }: { children: ReactNode }) {
  const [theme, setTheme] = useState<Theme>(
    () => (stored("meterline.theme") as Theme | null) ?? "auto",
  );
  const [zone, setZone] = useState(() => (stored("meterline.zone") === "own" ? OWN_ZONE : "UTC"));
  // Before charts are drawn: they take their colours from it.
  useLayoutEffect(() => {
    if (theme === "auto") delete document.documentElement.dataset["theme"];
    else document.documentElement.dataset["theme"] = theme;
    store("meterline.theme", theme);
  }, [theme]);
  const look = useMemo<Look>(() => ({ theme, setTheme }), [theme]);
  const view = useMemo<View>(
    () => ({
      zone,
      own: OWN_ZONE,
      setZone: (chosen) => {
        store("meterline.zone", chosen === "UTC" ? "utc" : "own");
        setZone(chosen);
      },
      time: (instant, to) => written(instant, zone, to),
    }),
    [zone],
  );
  return (
    <LookContext value={look}>
      <ViewContext value={view}>{children}</ViewContext>
    </LookContext>
  );
}

/** The theme; apart from the rest, so that a switch draws no text anew. */
export function useLook(): Look {
  const look = useContext(LookContext);
  if (look === undefined) throw new Error("useLook outside of ViewProvider");
  return look;
}

export function useView(): View {
  const view = useContext(ViewContext);
  if (view === undefined) throw new Error("useView outside of ViewProvider");
  return view;
}

const SessionContext = createContext<Session | undefined>(undefined);
export const SessionProvider = SessionContext.Provider;

export function useSession(): UseQueryResult<Session> {
  return useApi(["session"], readSession, 60_000);
}

/** Whether this is on a page that somebody has signed in to, not on the page where they sign in. */
export function useSignedIn(): boolean {
  return useContext(SessionContext) !== undefined;
}

/** The id of the key that the viewer signed in with; none where the server asks for no key. */
export function useOwnKey(): string | undefined {
  return useContext(SessionContext)?.key?.id;
}

/** Whether the server asks for keys: then commands to copy show one. */
export function useKeyed(): boolean {
  return useContext(SessionContext)?.access_mode === "keys";
}

/** Whether the viewer may do what needs a scope. What they may not do is not offered. */
export function useMay(): (scope: string) => boolean {
  const session = useContext(SessionContext);
  return useCallback((scope: string) => session?.scopes.includes(scope) ?? false, [session]);
}

const RENEW_EVERY_MS = 60_000;

/** Renew the session when the person does something, not when the page polls. */
export function useRenewal(session: Session | undefined): void {
  const ends = session?.expires_at !== undefined;
  useEffect(() => {
    if (!ends) return undefined;
    let renewedMs = performance.now();
    const act = () => {
      if (performance.now() - renewedMs < RENEW_EVERY_MS) return;
      renewedMs = performance.now();
      renewSession().catch(() => undefined); // the next request says what is wrong
    };
    window.addEventListener("pointerdown", act);
    window.addEventListener("keydown", act);
    return () => {
      window.removeEventListener("pointerdown", act);
      window.removeEventListener("keydown", act);
    };
  }, [ends]);
}
