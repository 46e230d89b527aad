import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { Tab, TabList, TabPanel, Tabs } from "react-aria-components";

import { API, text, type Schemas } from "../api.js";
import { EventName } from "../parts/event-name.js";
import { Code, Failure, Name } from "../parts/basics.js";
import { questionOf, Why } from "../parts/why-link.js";
import { grouped, many } from "../rules/figures.js";
import { firstEvent, sending, type FirstEvent } from "../rules/first.js";
import { useKeyed } from "../state.js";

/** Send it by a button, or by a program to copy. */
export function Send({ meter }: { meter: Schemas["Meter"] }) {
  const client = useQueryClient();
  const keyed = useKeyed();
  const [event] = useState(() => firstEvent(meter, Date.now())); // the same at each press
  const send = useMutation({
    mutationFn: (one: FirstEvent) =>
      text(`${API}/events`, {
        method: "POST",
        headers: { "Content-Type": "application/cloudevents+json" },
        body: JSON.stringify(one),
      }),
    onSuccess: () => client.invalidateQueries({ queryKey: ["events"] }),
  });
  return (
    <>
      <p>
        An event says who used what, when. Send it by a program, or by the button. Sent twice, it
        counts once: <code>source</code> and <code>id</code> are the same.
      </p>
      <Tabs>
        <TabList aria-label="Language" className="tabs">
          {sending(location.origin, event, keyed).map(([language]) => (
            <Tab key={language} id={language} className="tab">
              {language}
            </Tab>
          ))}
        </TabList>
        {sending(location.origin, event, keyed).map(([language, program]) => (
          <TabPanel key={language} id={language}>
            <Code label={`Send an event with ${language}`} text={program} />
          </TabPanel>
        ))}
      </Tabs>
      <div className="row">
        <button
          type="button"
          className="button main"
          disabled={send.isPending}
          onClick={() => send.mutate(event)}
        >
          Send the event
        </button>
        {send.isSuccess && (
          <span className="muted" role="status">
            It is stored. It is counted within seconds.
          </span>
        )}
      </div>
      {send.error && <Failure error={send.error} />}
    </>
  );
}

export function Sent({ event }: { event: Schemas["Event"] }) {
  return (
    <p className="muted">
      Event <EventName event={event} /> of <Name>{event.subject}</Name> is in the log.
    </p>
  );
}

export function Watch() {
  return (
    <p className="muted" role="status">
      It is being counted; this takes a second or two. If nothing appears, its value may be
      unusable: the page of the event says why.
    </p>
  );
}

export function Counted({
  meter,
  row,
}: {
  meter: Schemas["Meter"];
  row: Schemas["QueryResult"]["data"][number];
}) {
  return (
    <p className="appeared">
      <Why question={questionOf(meter.key, row)}>
        <b>{grouped(row.value)}</b>
      </Why>{" "}
      <span className="muted">
        from {many(row.counted, "event")}. Each number can be asked “why?”: the answer is the events
        behind it.
      </span>
    </p>
  );
}
