import { useEffect, useReducer, useRef, useState, type ReactNode } from "react";
import { Link } from "wouter";

import { ProblemError, Unreached } from "../api.js";
import { grouped } from "../rules/figures.js";
import { away } from "../rules/times.js";
import { setParams, useAway, useParam, useSignedIn, useView } from "../state.js";

/** A button that copies text, and says whether it did: a browser may refuse it, and has no
 * clipboard for a page that came over http from another machine.
 */
export function Copy({ text, label = "Copy" }: { text: string; label?: string }) {
  const [told, setTold] = useState("");
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      setTold("Copied");
    } catch {
      setTold("Not copied: select it");
    }
    setTimeout(() => setTold(""), 2000);
  };
  return (
    <button type="button" className="button small" onClick={() => void copy()}>
      <span aria-live="polite">{told || label}</span>
    </button>
  );
}

/** Text to copy whole: a command, a body, a program. */
export function Code({ text, label }: { text: string; label: string }) {
  return (
    <figure className="code">
      <pre tabIndex={0} aria-label={label} dir="ltr">
        {text}
      </pre>
      <Copy text={text} />
    </figure>
  );
}

/** What went wrong, what to do, and the request id. */
export function Failure({ error, retry }: { error: unknown; retry?: () => void }) {
  const problem = error instanceof ProblemError ? error.problem : undefined;
  const words = problem?.detail ?? (error instanceof Error ? error.message : String(error));
  const signedIn = useSignedIn();
  const ended = signedIn && error instanceof ProblemError && error.status === 401;
  const again = mayPass(error) ? retry : undefined;
  return (
    <div className="notice bad" role="alert">
      <p>
        <strong>
          {ended
            ? "Signed out"
            : (problem?.title ?? (error instanceof Unreached ? "No answer" : "That did not work"))}
        </strong>{" "}
        {ended ? "" : words}
      </p>
      <p>{todo(error, signedIn, again !== undefined)}</p>
      {problem && (
        <p className="row">
          <span className="muted">
            Request <code>{problem.instance}</code>
          </span>
          <Copy text={problem.instance} label="Copy request id" />
        </p>
      )}
      {again && (
        <button type="button" className="button" onClick={again}>
          Try again
        </button>
      )}
    </div>
  );
}

/** Whether the same request may be answered otherwise later: what the server refuses, it refuses again. */
function mayPass(error: unknown): boolean {
  return !(error instanceof ProblemError) || error.status === 429 || error.status >= 500;
}

/** What to do. Where there is a button to try again, it need not be said, too. */
function todo(error: unknown, signedIn: boolean, button: boolean): string {
  if (!(error instanceof ProblemError)) return "";
  if (error.status === 401 && signedIn)
    return "Your session had ended, so nothing was done. Do it again once you are signed in.";
  if (error.status === 401)
    return "Sign in with a key that is valid; an earlier session may have ended.";
  if (error.status === 403)
    return "Ask for a key with the scope that is named, and sign in with it.";
  if (error.status === 429) return "Wait a moment: the key's plan allows no more requests now.";
  if (error.status === 404) return "It may have been deleted, or the address is not whole.";
  if (error.status >= 500)
    return `${button ? "" : "Try again. "}If this goes on, give the request id to whoever runs the server: its log has it.`;
  return "Change what is named and try again.";
}

const LONG_MS = 5000;

/** That an answer is awaited; after a while, and where it was refused meanwhile, also why. */
export function Loading({ refused }: { refused?: unknown }) {
  const [long, setLong] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setLong(true), LONG_MS);
    return () => clearTimeout(timer);
  }, []);
  const words =
    refused instanceof ProblemError
      ? `${refused.problem?.detail ?? refused.message} Asking again …`
      : long
        ? "Loading … The server takes long to answer; you can go on to another page."
        : "Loading …";
  return (
    <p className="muted" role="status">
      {words}
    </p>
  );
}

interface Asked<T> {
  readonly data: T | undefined;
  readonly error: unknown;
  readonly failureReason?: unknown;
  readonly errorUpdateCount?: number;
  readonly isPlaceholderData?: boolean;
  readonly refetch: () => unknown;
}

/** Why each answer is not there, or null. While it is asked for again that stands, with the request id to copy. */
function useFailures(of: readonly Asked<unknown>[]): readonly unknown[] {
  const last = useRef<unknown[]>([]);
  return of.map(({ data, error, errorUpdateCount }, at) => {
    if (error != null) last.current[at] = error;
    if (data !== undefined) return error;
    return error ?? (errorUpdateCount ? last.current[at] : null);
  });
}

/** Why answers of a page are not there: each reason once, with one button that asks for all of them again.
 * Each `Answer` to one of them has `told`.
 */
export function Failures({ of }: { of: readonly Asked<unknown>[] }) {
  const away = useAway();
  const failures = useFailures(of);
  const reasons = new Map<string, { error: unknown; asked: Asked<unknown>[] }>();
  of.forEach((asked, at) => {
    const error = failures[at];
    if (error == null || (error instanceof Unreached && asked.data !== undefined)) return;
    const reason = reasonOf(error);
    const same = reasons.get(reason);
    if (same === undefined) reasons.set(reason, { error, asked: [asked] });
    else same.asked.push(asked);
  });
  return [...reasons].map(([reason, { error, asked }]) =>
    away && error instanceof Unreached ? (
      <Awaited key={reason} />
    ) : (
      <Failure
        key={reason}
        error={error}
        retry={() => asked.forEach((one) => void one.refetch())}
      />
    ),
  );
}

/** What an error says, without its request id. */
function reasonOf(error: unknown): string {
  const problem = error instanceof ProblemError ? error.problem : undefined;
  return problem === undefined ? String(error) : `${problem.title} ${problem.detail}`;
}

/** In place of an answer while the server is away, which the shell says. */
function Awaited() {
  return <p className="muted">This is shown as soon as the server answers.</p>;
}

/** What was asked for: the answer, or that it is awaited, or why there is none. Old answers stay. */
export function Answer<T>({
  of,
  children,
  page,
  all,
  told = false,
}: {
  of: Asked<T>;
  children: (data: T) => ReactNode;
  /** Where the answer is the whole page: its heading while there is none, and the way to the list. */
  page?: string;
  all?: ReactNode;
  /** Whether the page says by `Failures` why it is not there. */
  told?: boolean;
}) {
  const away = useAway();
  const [error] = useFailures([of]);
  if (of.data === undefined) {
    if (error == null) return <Loading refused={of.failureReason} />;
    if (told) return null;
    const failure =
      away && error instanceof Unreached ? (
        <Awaited />
      ) : (
        <Failure error={error} retry={() => void of.refetch()} />
      );
    if (page === undefined) return failure;
    return (
      <Page title={<Name>{page}</Name>} aside={all}>
        {failure}
      </Page>
    );
  }
  // That the server is away is said once, by the shell; what it said before stays.
  const refused = error != null && !(error instanceof Unreached);
  return (
    <>
      {refused && !told && <Failure error={error} retry={() => void of.refetch()} />}
      <div aria-busy={of.isPlaceholderData} className={of.isPlaceholderData ? "stale" : undefined}>
        {children(of.data)}
      </div>
    </>
  );
}

export function Empty({ title, children }: { title: string; children?: ReactNode }) {
  return (
    <div className="empty">
      <p className="empty-title">{title}</p>
      {children}
    </div>
  );
}

/** An instant in the viewer's zone; the exact one on hover. */
export function Time({ at, ago = false }: { at: string | undefined | null; ago?: boolean }) {
  const { time } = useView();
  if (at == null) return <span className="muted">never</span>;
  return (
    <time dateTime={at} title={`${time(at)} (${at})`} className="nowrap">
      {ago ? <Ago at={at} /> : time(at)}
    </time>
  );
}

const AGO_MS = 10_000;

/** How far an instant is from now. It is written anew as time goes by, also where no answer changes. */
function Ago({ at }: { at: string }) {
  const [, again] = useReducer((times: number) => times + 1, 0);
  useEffect(() => {
    const timer = setInterval(again, AGO_MS);
    return () => clearInterval(timer);
  }, []);
  return away(at, Date.now());
}

const TONES: Record<string, string> = {
  succeeded: "good",
  delivered: "good",
  active: "good",
  well: "good",
  new: "good",
  counted: "good",
  redriven: "good",
  in_force: "good",
  failed: "bad",
  down: "bad",
  failing: "bad",
  parked: "bad",
  invalid: "bad",
  conflict: "bad",
  refused: "bad",
  unreached: "bad",
  forbidden: "bad",
  revoked: "bad",
  rejected: "bad",
  partly_failed: "warn",
  retrying: "warn",
  paused: "warn",
  waiting: "warn",
  duplicate: "warn",
  lost: "warn",
  expired: "warn",
  open: "warn",
};

export function toneOf(state: string): string {
  return TONES[state] ?? "plain";
}

/** A state as a word with a tone. The word says all; the colour only helps. */
export function State({ of }: { of: string }) {
  return <span className={`state ${toneOf(of)}`}>{of.replaceAll("_", " ")}</span>;
}

/** A name that others chose: of any length, in any script, never as markup. */
export function Name({ children }: { children: string }) {
  return (
    <bdi className="name" title={children}>
      {children}
    </bdi>
  );
}

export function Figure({ value, unit }: { value: string; unit?: string }) {
  return (
    <span className="figure">
      {grouped(value)}
      {unit && <span className="muted"> {unit}</span>}
    </span>
  );
}

export interface Column<Row> {
  readonly head: string;
  readonly cell: (row: Row) => ReactNode;
  readonly number?: boolean;
}

/** A table that scrolls in itself where the page is narrow. */
export function Table<Row>({
  label,
  columns,
  rows,
  id,
  bounded = false,
}: {
  label: string;
  columns: readonly Column<Row>[];
  rows: readonly Row[];
  id: (row: Row) => string;
  /** Whether it scrolls in itself also where it is long: where more stands below it. */
  bounded?: boolean;
}) {
  return (
    <div
      className={bounded ? "table bounded" : "table"}
      role="region"
      aria-label={label}
      tabIndex={0}
    >
      <table>
        <thead>
          <tr>
            {columns.map((column) => (
              <th key={column.head} scope="col" className={column.number ? "number" : undefined}>
                {column.head}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={id(row)}>
              {columns.map((column) => (
                <td key={column.head} className={column.number ? "number" : undefined}>
                  {column.cell(row)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** Steps through a list by cursor. The browser's Back is the page before. */
export function CursorPages({ next, param = "after" }: { next: string | null; param?: string }) {
  const [at] = useParam(param);
  const later = at !== "";
  if (next === null && !later) return null;
  return (
    <nav className="pages" aria-label="Pages">
      <button
        type="button"
        className="button"
        disabled={!later}
        onClick={() => setParams({ [param]: "" })}
      >
        First page
      </button>
      <button
        type="button"
        className="button"
        disabled={next === null}
        onClick={() => setParams({ [param]: next ?? "" })}
      >
        Next page
      </button>
    </nav>
  );
}

/** What stands in place of a page of a list that has no entry: only the whole list can be empty. */
export function EmptyPage({
  next,
  keptFrom,
  children,
}: {
  next: string | null;
  keptFrom?: string | undefined;
  children: ReactNode;
}) {
  const [at] = useParam("after");
  if (next === null && at === "")
    return (
      <>
        {children}
        <KeptFrom at={keptFrom} />
      </>
    );
  return (
    <>
      <Empty title="This page of the list has no entry">
        <p>
          {next === null
            ? "Go back to the first page."
            : "The list goes on: see whether the next page has one."}
        </p>
      </Empty>
      <CursorPages next={next} />
    </>
  );
}

/** What a list lacks, where old entries are dropped. */
export function KeptFrom({ at }: { at: string | undefined }) {
  if (at === undefined) return null;
  return (
    <p className="muted">
      What arrived before <Time at={at} /> is not kept any more.
    </p>
  );
}

export function NumberPages({
  number,
  size,
  total,
}: {
  number: number;
  size: number;
  total: number;
}) {
  const last = Math.max(1, Math.ceil(total / size));
  if (last === 1) return <p className="muted">{grouped(String(total))} in all</p>;
  const to = (page: number) => () => setParams({ page: page === 1 ? "" : String(page) });
  return (
    <nav className="pages" aria-label="Pages">
      <button type="button" className="button" disabled={number <= 1} onClick={to(number - 1)}>
        Page before
      </button>
      <span className="muted">
        Page {grouped(String(number))} of {grouped(String(last))}, {grouped(String(total))} in all
      </span>
      <button type="button" className="button" disabled={number >= last} onClick={to(number + 1)}>
        Next page
      </button>
    </nav>
  );
}

export function Page({
  title,
  aside,
  children,
}: {
  title: ReactNode;
  aside?: ReactNode;
  children: ReactNode;
}) {
  return (
    <>
      <header className="page-head">
        <h1>{title}</h1>
        {aside && <div className="row">{aside}</div>}
      </header>
      {children}
    </>
  );
}

export function Card({
  title,
  aside,
  children,
}: {
  title: string;
  aside?: ReactNode;
  children: ReactNode;
}) {
  return (
    <section className="card">
      <div className="card-head">
        <h2>{title}</h2>
        {aside}
      </div>
      {children}
    </section>
  );
}

export function Facts({ of }: { of: readonly (readonly [string, ReactNode])[] }) {
  return (
    <dl className="facts">
      {of.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

/** A field of a filter: what is written comes into the URL when it is left or Enter is pressed. */
export function TextFilter({
  label,
  value,
  set,
  type = "search",
}: {
  label: string;
  value: string;
  set: (value: string) => void;
  type?: string;
}) {
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => {
    if (input.current !== null) input.current.value = value; // it keeps the focus
  }, [value]);
  return (
    <label className="field">
      <span>{label}</span>
      <input
        ref={input}
        type={type}
        defaultValue={value}
        onBlur={(event) => event.target.value !== value && set(event.target.value)}
        onKeyDown={(event) => event.key === "Enter" && set(event.currentTarget.value)}
      />
    </label>
  );
}

export function Choice({
  label,
  value,
  set,
  options,
}: {
  label: string;
  value: string;
  set: (value: string) => void;
  options: readonly (readonly [string, string])[];
}) {
  return (
    <label className="field">
      <span>{label}</span>
      <select value={value} onChange={(event) => set(event.target.value)}>
        {options.map(([name, words]) => (
          <option key={name} value={name}>
            {words}
          </option>
        ))}
      </select>
    </label>
  );
}

export { Link };
