import { Code } from "../parts/basics.js";

/** A secret that is shown this once. It is in no URL and in no store of the browser. */
export function Secret({ text, label, once }: { text: string; label: string; once: boolean }) {
  return (
    <div className="notice good" role="status">
      {once && (
        <p>
          <strong>Copy it now: it is not shown again.</strong>
        </p>
      )}
      <Code label={label} text={text} />
    </div>
  );
}
