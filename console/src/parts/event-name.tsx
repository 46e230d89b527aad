import { Link, Name } from "./basics.js";

interface EventKey {
  readonly source: string;
  readonly id: string;
}

/** The page of an event. */
export function eventLink(event: EventKey): string {
  return `/event?source=${encodeURIComponent(event.source)}&id=${encodeURIComponent(event.id)}`;
}

/** The id of an event, with its page; of what could not be read, its text where it is known. */
export function EventName({
  event,
  text,
}: {
  event?: EventKey | null | undefined;
  text?: string | undefined;
}) {
  if (event)
    return (
      <Link href={eventLink(event)}>
        <Name>{event.id}</Name>
      </Link>
    );
  if (text === undefined) return "unreadable";
  return (
    <code>
      <Name>{text}</Name>
    </code>
  );
}
