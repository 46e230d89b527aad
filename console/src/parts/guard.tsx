import { Component, type ReactNode } from "react";

import { meet, met } from "../api.js";

interface State {
  readonly error?: unknown;
}

const RELOADED = "meterline.reloaded"; // the address that was loaded anew by itself, so that it is so once
let lacksFiles = false;
window.addEventListener("vite:preloadError", () => {
  lacksFiles = true;
});

/** Keeps the head where a page breaks. Where its files could not be had, the page is loaded anew as
 * soon as the server answers: it may have been away, or have another release of them.
 */
export class Guard extends Component<{ children: ReactNode }, State> {
  override state: State = {};

  static getDerivedStateFromError(error: unknown): State {
    return { error };
  }

  override componentDidCatch(): void {
    if (!lacksFiles) return;
    met.heard.add(this.reload);
    void this.look();
  }

  override componentWillUnmount(): void {
    met.heard.delete(this.reload);
  }

  /** A reload while nobody answers would leave the browser's own page of errors. */
  private async look(): Promise<void> {
    const answer = await fetch("/console/", { method: "HEAD" }).catch(() => undefined);
    meet(answer !== undefined);
    if (answer?.ok) this.reload();
  }

  private readonly reload = (): void => {
    if (!met.answered || sessionStorage.getItem(RELOADED) === location.href) return;
    sessionStorage.setItem(RELOADED, location.href);
    location.reload();
  };

  override render() {
    if (this.state.error === undefined) return this.props.children;
    return (
      <div className="notice bad" role="alert">
        <h1>This page could not be shown</h1>
        <p>
          {lacksFiles
            ? "The server does not answer, or it has a newer console than this tab. Reload the page."
            : "It broke. Reload the page; if it breaks again, tell who runs the server what stands below."}
        </p>
        <button type="button" className="button" onClick={() => location.reload()}>
          Reload the page
        </button>
        <p className="muted">{String(this.state.error)}</p>
      </div>
    );
  }
}
