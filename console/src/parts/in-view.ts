import { useEffect, useRef, useState, type RefObject } from "react";

const AHEAD = "200px"; // so that it is often there already when somebody scrolls to it

/** Whether an element has come into view. What has stays so: what was asked for it is kept. */
export function useCameIntoView<T extends Element>(): [RefObject<T | null>, boolean] {
  const element = useRef<T>(null);
  const [came, setCame] = useState(false);
  useEffect(() => {
    if (came || element.current === null) return undefined;
    const observer = new IntersectionObserver(
      (seen) => seen.some((one) => one.isIntersecting) && setCame(true),
      { rootMargin: AHEAD },
    );
    observer.observe(element.current);
    return () => observer.disconnect();
  }, [came]);
  return [element, came];
}
