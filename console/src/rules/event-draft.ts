import { parsed, printed } from "./exact.js";

/** An event as it stands in a form: what it is known by as fields, the rest of it as JSON. */
export interface EventDraft {
  readonly id: string;
  readonly source: string;
  readonly type: string;
  readonly subject: string;
  readonly time: string;
  readonly data: string;
  /** Members that the form does not show; they are sent as they were. */
  readonly others: Readonly<Record<string, unknown>>;
}

const SHOWN = ["id", "source", "type", "subject", "time", "data"] as const;

function text(value: unknown): string {
  if (value === undefined || value === null) return "";
  const json = printed(value);
  return typeof value === "string" && json.startsWith('"') ? value : json;
}

/** The fields of what was sent; of what is no object, none. */
export function draftOf(sent: unknown): EventDraft {
  const members = (
    typeof sent === "object" && sent !== null && !Array.isArray(sent) ? sent : {}
  ) as Record<string, unknown>;
  const others = Object.fromEntries(
    Object.entries(members).filter(([name]) => !(SHOWN as readonly string[]).includes(name)),
  );
  return {
    id: text(members["id"]),
    source: text(members["source"]),
    type: text(members["type"]),
    subject: text(members["subject"]),
    time: text(members["time"]),
    data: printed(members["data"], 2),
    others: Object.keys(others).length === 0 ? { specversion: "1.0" } : others,
  };
}

/** The draft as an event, or why its data is no JSON. Members that are empty are left out. */
export function eventOf(draft: EventDraft): { event: Record<string, unknown> } | { fault: string } {
  const event: Record<string, unknown> = { ...draft.others };
  for (const name of SHOWN) {
    if (name !== "data" && draft[name] !== "") event[name] = draft[name];
  }
  if (draft.data.trim() !== "") {
    try {
      event["data"] = parsed(draft.data);
    } catch (error) {
      return {
        fault: `This is no JSON: ${error instanceof Error ? error.message : "unreadable"}.`,
      };
    }
  }
  return { event };
}
