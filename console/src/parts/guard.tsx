import { Component, type ReactNode } from "react";

import { meet, met } from "../api.js";

interface State {
  readonly error?: unknown;
  /** Whether the page loads itself anew, or looks whether it can. */
  readonly anew?: boolean;
}

const RELOADED = "meterline.reloaded";
const LOOK_WITHIN_MS = 10_000;
let lacksFiles = false;
window.addEventListener("vite:preloadError", () => {
  lacksFiles = true;
});

/** What is loaded anew by itself at most once: an address, by a release of the console. */
function place(): string {
  return `${import.meta.url} ${location.href}`;
}

function wasReloaded(): boolean {
  return sessionStorage.getItem(RELOADED) === place();
}

/** Keeps the head where a page breaks. Where its files could not be had, the page is loaded anew as
 * soon as the server answers: it may have been away, or have another release of them. A button to do
 * so stands there only where the page does not do it by itself: it would go away under the pointer.
 */
export class Guard extends Component<{ children: ReactNode }, State> {
  override state: State = {};

  static getDerivedStateFromError(error: unknown): State {
    return { error, anew: lacksFiles && !wasReloaded() };
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
    const signal = AbortSignal.timeout(LOOK_WITHIN_MS);
    const answer = await fetch("/console/", { method: "HEAD", signal }).catch(() => undefined);
    meet(answer !== undefined);
    if (answer?.ok) this.reload();
    else this.setState({ anew: false });
  }

  private readonly reload = (): void => {
    if (!met.answered || wasReloaded()) return;
    sessionStorage.setItem(RELOADED, place());
    this.setState({ anew: true });
    location.reload();
  };

  override render() {
    if (this.state.error === undefined) return this.props.children;
    if (this.state.anew)
      return (
        <p className="muted" role="status">
          Files of this page are missing. The page reloads …
        </p>
      );
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
