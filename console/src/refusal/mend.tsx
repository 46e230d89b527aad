import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { API, ProblemError, api, text, unwrap, type Schemas } from "../api.js";
import { AskForm } from "../forms/ask-form.js";
import { FormDialog } from "../forms/dialog.js";
import { Field } from "../forms/fields.js";
import { faultAt, faultsOf, together } from "../forms/faults.js";
import { Link } from "../parts/basics.js";
import { eventLink } from "../parts/event-name.js";
import { draftOf, eventOf, type EventDraft } from "../rules/event-draft.js";
import { parsed, printed } from "../rules/exact.js";

type Contents = Schemas["RefusalContents"];
const FIELDS = ["id", "source", "type", "subject", "time", "data"];

function sentOf(refusal: Contents): unknown {
  if (refusal.refused) return refusal.refused;
  try {
    return parsed(refusal.text ?? "");
  } catch {
    return undefined; // what was sent is no JSON: the fields start empty
  }
}

/** Mend what was refused, and send it anew. It is judged and counted as any other event. */
export function Mend({ refusal }: { refusal: Contents }) {
  const client = useQueryClient();
  const [draft, setDraft] = useState<EventDraft>(() => draftOf(sentOf(refusal)));
  const made = eventOf(draft);
  const send = useMutation({
    mutationFn: async () => {
      if ("fault" in made) throw new Error(made.fault);
      return text(`${API}/refusals/${encodeURIComponent(refusal.id)}/redrive`, {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: printed({ event: made.event }),
      });
    },
    onSuccess: async () => {
      await client.invalidateQueries({ queryKey: ["refusals"] });
      await client.invalidateQueries({ queryKey: ["refusal", refusal.id] });
    },
  });
  const told = faultsOf(send.error, "event.");
  const own = new Map("fault" in made ? [["data", made.fault]] : []);
  const faults = together(own, told);
  const put = (name: keyof EventDraft) => (value: string) => setDraft({ ...draft, [name]: value });
  const stored = refusal.kind === "conflict" || refusal.kind === "value";
  const again = stored && draft.id === refusal.event?.id;
  return (
    <AskForm
      ask={send}
      submit="Send the mended event"
      refused={told}
      fields={FIELDS}
      error={send.error instanceof ProblemError ? send.error : null}
    >
      <div className="cards">
        <div className="form">
          <Field
            label="Id"
            value={draft.id}
            set={put("id")}
            hint={
              again
                ? "An event with this id is stored already. To count this one as well, give it an id of its own."
                : "With the source it makes the event itself."
            }
            error={faultAt(faults, "id")}
            needed
            code
          />
          <Field
            label="Source"
            value={draft.source}
            set={put("source")}
            error={faultAt(faults, "source")}
            needed
            code
          />
          <Field
            label="Type"
            value={draft.type}
            set={put("type")}
            error={faultAt(faults, "type")}
            needed
            code
          />
          <Field
            label="Subject"
            value={draft.subject}
            set={put("subject")}
            error={faultAt(faults, "subject")}
            needed
            code
          />
          <Field
            label="Time"
            value={draft.time}
            set={put("time")}
            hint="Such as 2026-01-31T10:00:00Z. Empty: when it is received."
            error={faultAt(faults, "time")}
            code
          />
        </div>
        <Field
          label="Data"
          value={draft.data}
          set={put("data")}
          hint="JSON. Meters read their values here."
          error={faultAt(faults, "data")}
          rows={14}
          code
        />
      </div>
    </AskForm>
  );
}

/** What came of a refusal that was mended or dismissed. */
export function Settled({ refusal }: { refusal: Contents }) {
  if (refusal.redrive)
    return (
      <div className="notice good" role="status">
        <p>
          <strong>A mended event was sent.</strong>{" "}
          {refusal.state === "redriving"
            ? "It is counted in a few seconds."
            : "It is recorded with this refusal."}
        </p>
        <Link href={eventLink(refusal.redrive.event)}>See what became of it</Link>
      </div>
    );
  if (refusal.dismissal)
    return (
      <div className="notice" role="status">
        <p>
          <strong>Dismissed</strong> by {refusal.dismissal.author}: {refusal.dismissal.note}
        </p>
      </div>
    );
  return null;
}

/** Say that nothing is to be done about a refusal. */
export function Dismiss({ refusal }: { refusal: Contents }) {
  const client = useQueryClient();
  const [note, setNote] = useState("");
  const act = async () => {
    const params = { path: { refusalId: refusal.id } };
    unwrap(
      await api.POST("/api/v3/metering/refusals/{refusalId}/dismiss", { params, body: { note } }),
    );
    await client.invalidateQueries({ queryKey: ["refusals"] });
    await client.invalidateQueries({ queryKey: ["refusal", refusal.id] });
  };
  return (
    <FormDialog
      open="Dismiss"
      title="Dismiss this refusal?"
      submit="Dismiss it"
      act={act}
      fields={["note"]}
    >
      {(faults) => (
        <>
          <p>
            It does not count, and is not listed as open any more. It can still be mended later.
          </p>
          <Field
            label="Note for the record"
            value={note}
            set={setNote}
            error={faultAt(faults, "note")}
            autoFocus
            needed
          />
        </>
      )}
    </FormDialog>
  );
}
