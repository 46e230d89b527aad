import { useEffect, useRef, type ReactNode } from "react";

/** A card that a button of the page opens. It takes the focus, so that who pressed the button sees it
 * and reads on in it, and gives the focus back when it closes. A page that is loaded with the card open
 * keeps its focus.
 */
export function Opened({
  title,
  close,
  children,
}: {
  title: string;
  close: () => void;
  children: ReactNode;
}) {
  const card = useRef<HTMLElement>(null);
  useEffect(() => {
    const opener = document.activeElement;
    const pressed = opener instanceof HTMLElement && opener !== document.body;
    if (pressed) card.current?.focus();
    return () => {
      if (document.activeElement !== document.body) return; // somebody is elsewhere by now
      const back = pressed && opener.isConnected ? opener : document.getElementById("main");
      back?.focus();
    };
  }, []);
  return (
    <section ref={card} className="card" tabIndex={-1} aria-label={title}>
      <div className="card-head">
        <h2>{title}</h2>
        <button type="button" className="button small" onClick={close}>
          Close
        </button>
      </div>
      {children}
    </section>
  );
}
