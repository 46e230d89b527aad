import { useEffect, useState } from "react";

export const STILL_MS = 400;

/** A value once it has not changed for a moment: so a preview is not asked for at each letter. */
export function useStill<T>(value: T): T {
  const text = JSON.stringify(value);
  const [still, setStill] = useState(text);
  useEffect(() => {
    const timer = setTimeout(() => setStill(text), STILL_MS);
    return () => clearTimeout(timer);
  }, [text]);
  return JSON.parse(still) as T;
}
