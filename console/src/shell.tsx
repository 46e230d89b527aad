import {
  Activity,
  Suspense,
  lazy,
  useEffect,
  useLayoutEffect,
  useRef,
  useState,
  type ComponentType,
  type ReactNode,
} from "react";
import { Link, Route, Switch, useLocation } from "wouter";

import { signOut, Unreached, type Session } from "./api.js";
import { Guard } from "./parts/guard.js";
import { Failure, Loading, Page } from "./parts/basics.js";
import { fromText } from "./parts/why-link.js";
import {
  SessionProvider,
  setParams,
  useAnswered,
  useLook,
  useParam,
  useRenewal,
  useSession,
  useView,
  type Theme,
} from "./state.js";
import { Overview } from "./pages/overview.js";

const WhyPanel = lazy(() => import("./parts/why.js"));

type Load = () => Promise<{ default: ComponentType }>;

const LOADED: readonly (readonly [path: string, load: Load])[] = [
  ["/meters", () => import("./pages/meters.js")],
  ["/new/meters", () => import("./meter/create.js")],
  ["/meters/:key", () => import("./pages/meter.js")],
  ["/meters/:key/revise", () => import("./meter/revise.js")],
  ["/meters/:key/revisions/:revision", () => import("./meter/revision.js")],
  ["/syncs", () => import("./pages/syncs.js")],
  ["/new/syncs", () => import("./sync/create.js")],
  ["/syncs/:slug", () => import("./pages/sync.js")],
  ["/syncs/:slug/edit", () => import("./sync/edit.js")],
  ["/deliveries/:id", () => import("./pages/delivery.js")],
  ["/events", () => import("./pages/events.js")],
  ["/event", () => import("./pages/event.js")],
  ["/refusals", () => import("./pages/refusals.js")],
  ["/subjects", () => import("./pages/subjects.js")],
  ["/subject", () => import("./pages/subject.js")],
  ["/keys", () => import("./pages/keys.js")],
  ["/changes", () => import("./pages/changes.js")],
];
const PAGES: readonly (readonly [path: string, page: ComponentType])[] = [
  ["/", Overview],
  ...LOADED.map(([path, load]) => [path, lazy(load)] as const),
];

/** The page of this address is fetched at once, not only when it is known who is signed in. */
function fetchFirst(): void {
  const here = location.pathname.replace(/^\/console/, "");
  const is = (path: string) => new RegExp(`^${path.replaceAll(/:\w+/g, "[^/]+")}$`).test(here);
  LOADED.find(([path]) => is(path))?.[1]().catch(() => undefined); // it is asked for again, and told
}
fetchFirst();

const SignIn = lazy(() => import("./pages/sign-in.js"));

/** Where a page is, in words, and the scope that it needs; `of` are the paths of its single ones. */
const PLACES: readonly (readonly [path: string, words: string, scope: string, of?: string])[] = [
  ["/", "Overview", "status:read"],
  ["/meters", "Meters", "meters:read"],
  ["/syncs", "Syncs", "reports:read", "/deliveries"],
  ["/events", "Events", "events:read", "/event"],
  ["/refusals", "Refusals", "events:read"],
  ["/subjects", "Subjects", "usage:read", "/subject"],
  ["/keys", "Keys", "keys:read"],
  ["/changes", "Changes", "changes:read"],
];

function placeOf(at: string): string {
  const path = at.replace(/^\/new(?=\/)/, "");
  const found = PLACES.find(([place, , , of]) =>
    [place, of].some((one) => path === one || (one !== "/" && path.startsWith(`${one}/`))),
  );
  return found?.[0] ?? "";
}

export function Shell() {
  const session = useSession();
  const kept = useRef<Session>(undefined);
  const first = useRef<string>(undefined);
  first.current ??= session.data?.console;
  const stale = session.data?.console !== undefined && session.data.console !== first.current;
  const answered = useAnswered();
  useRenewal(session.data);
  if (session.data === undefined) {
    return (
      <main className="alone">
        {session.error ? (
          <Failure error={session.error} retry={() => void session.refetch()} />
        ) : (
          <Loading />
        )}
      </main>
    );
  }
  const signedIn = session.data.signed_in;
  if (signedIn) kept.current = session.data;
  return (
    <>
      {!signedIn && (
        <Guard>
          <Suspense fallback={<Loading />}>
            <SignIn before={kept.current} />
          </Suspense>
        </Guard>
      )}
      {/* While nobody is signed in it waits, hidden: what was written there is not lost. */}
      {kept.current && (
        <Activity mode={signedIn ? "visible" : "hidden"}>
          <SignedIn key={kept.current.key?.id ?? ""} session={kept.current}>
            {stale && <Upgraded />}
            {!answered && <Failure error={new Unreached()} />}
            {answered && session.error != null && <Failure error={session.error} />}
          </SignedIn>
        </Activity>
      )}
    </>
  );
}

/** All pages, for one key. `children` is what the shell has to say above the page. */
function SignedIn({ session, children }: { session: Session; children: ReactNode }) {
  const [path] = useLocation();
  useFocusKept();
  return (
    <SessionProvider value={session}>
      <a className="skip" href="#main">
        Skip to the page
      </a>
      <Head session={session} />
      <main id="main" tabIndex={-1}>
        {children}
        <Guard key={path}>
          <Suspense fallback={<Loading />}>
            <Switch>
              {PAGES.map(([path, page]) => (
                <Route key={path} path={path} component={page} />
              ))}
              <Route component={Nowhere} />
            </Switch>
          </Suspense>
        </Guard>
        <Guard key={`why ${path}`}>
          <Asked />
        </Guard>
      </main>
      <Titles />
    </SessionProvider>
  );
}

/** Who comes back to a page that was hidden is where they were in it: a button that was pressed loses the
 * focus while it is busy, so it is noted when it gets it.
 */
function useFocusKept(): void {
  const last = useRef<Element>(null);
  useLayoutEffect(() => {
    if (last.current instanceof HTMLElement && last.current.isConnected) last.current.focus();
    const note = (event: FocusEvent) => {
      last.current = event.target instanceof Element ? event.target : null;
    };
    document.addEventListener("focusin", note);
    return () => document.removeEventListener("focusin", note);
  }, []);
}

function Head({ session }: { session: Session }) {
  const [at] = useLocation();
  const here = placeOf(at);
  return (
    <header className="head">
      <Link href="/" className="brand">
        <svg viewBox="0 0 32 32" aria-hidden="true">
          <path d="M2 21h6l4-12 5 17 4-11h9" />
        </svg>
        Meterline
      </Link>
      <nav aria-label="Main">
        {PLACES.filter(([, , scope]) => session.scopes.includes(scope)).map(([path, words]) => (
          <Place key={path} path={path} words={words} here={path === here} />
        ))}
      </nav>
      <Switches session={session} />
    </header>
  );
}

function Place({ path, words, here }: { path: string; words: string; here: boolean }) {
  const link = useRef<HTMLAnchorElement>(null);
  useEffect(() => {
    if (here) link.current?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }, [here]);
  return (
    <Link href={path} ref={link} aria-current={here ? "page" : undefined}>
      {words}
    </Link>
  );
}

function Switches({ session }: { session: Session }) {
  const { theme, setTheme } = useLook();
  const { zone, own, setZone } = useView();
  const [error, setError] = useState<unknown>();
  return (
    <div className="switches">
      {own !== "UTC" && (
        <select
          aria-label="Time zone"
          value={zone}
          onChange={(event) => setZone(event.target.value)}
        >
          <option>UTC</option>
          <option>{own}</option>
        </select>
      )}
      {own === "UTC" && <span className="muted">UTC</span>}
      <select
        aria-label="Theme"
        value={theme}
        onChange={(event) => setTheme(event.target.value as Theme)}
      >
        <option value="auto">System</option>
        <option value="light">Light</option>
        <option value="dark">Dark</option>
      </select>
      {session.key && (
        <button
          type="button"
          className="button small"
          title={`Key ${session.key.name}`}
          onClick={() => void signOut().then(() => location.reload(), setError)}
        >
          Sign out
        </button>
      )}
      {error !== undefined && <Failure error={error} />}
    </div>
  );
}

/** The question that the URL asks, if it asks one. */
function Asked() {
  const [text] = useParam("why");
  const question = text === "" ? undefined : fromText(text);
  if (question === undefined) return null;
  return (
    <Suspense fallback={null}>
      <WhyPanel question={question} close={() => setParams({ why: "", why_after: "" })} />
    </Suspense>
  );
}

function Titles() {
  const [path] = useLocation();
  useEffect(() => {
    const place = PLACES.find(([at]) => at === placeOf(path))?.[1];
    document.title = place === undefined ? "Meterline" : `${place} · Meterline`;
  }, [path]);
  return null;
}

function Upgraded() {
  return (
    <div className="notice" role="status">
      <p>The server has a newer console.</p>
      <button type="button" className="button" onClick={() => location.reload()}>
        Load it
      </button>
    </div>
  );
}

function Nowhere() {
  return (
    <Page title="There is no such page">
      <p>
        Go to the <Link href="/">overview</Link>.
      </p>
    </Page>
  );
}
