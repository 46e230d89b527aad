import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { api, unwrap, type Schemas } from "../api.js";
import { FormDialog } from "../forms/dialog.js";
import { Field } from "../forms/fields.js";
import { faultAt } from "../forms/faults.js";
import { Card, Link, Name, State, Table, Time } from "../parts/basics.js";
import { SLOW_MS, useApi, useMay } from "../state.js";

type Erasure = Schemas["Erasure"];
const SHOWN = 20;

const STATES: Record<Erasure["state"], string> = {
  asked: "It waits until all that was recorded before is counted: five to ten minutes.",
  copying: "Its usage is being copied under the pseudonym.",
  switched: "Its usage is shown under the pseudonym; what has its name is being deleted.",
  settled: "Only the log still has records of it.",
  done: "Nothing has its name any more.",
};

/** The newest erasures, where the viewer may see them. */
function useErasures(): readonly Erasure[] {
  const may = useMay();
  const found = useApi(
    ["erasures"],
    async () => {
      const params = { query: { page: { size: SHOWN } } };
      return unwrap(await api.GET("/api/v3/metering/erasures", { params })).data;
    },
    SLOW_MS,
    may("subjects:erase"),
  );
  return found.data ?? [];
}

/** A button that erases a subject, for who may. */
export function Erase({ subject }: { subject: string }) {
  const may = useMay();
  const client = useQueryClient();
  const [text, setText] = useState("");
  if (!may("subjects:erase")) return null;
  const act = async () => {
    unwrap(await api.POST("/api/v3/metering/erasures", { body: { subject } }));
    await client.invalidateQueries({ queryKey: ["erasures"] });
  };
  return (
    <FormDialog
      open="Erase"
      opened={() => setText("")}
      title={`Erase ${subject}?`}
      submit="Erase the subject"
      act={act}
      fields={["subject"]}
      ready={text === subject}
      danger
    >
      {(faults) => (
        <>
          <p>
            Its name and the contents of its events are removed from all that was recorded until
            now. Its usage is kept under a pseudonym, so no total changes. Later events count under
            its name again. This cannot be undone.
          </p>
          <Field
            label="Write its key to confirm"
            value={text}
            set={setText}
            error={faultAt(faults, "subject")}
            autoFocus
            needed
            code
          />
        </>
      )}
    </FormDialog>
  );
}

/** That a subject is being erased, and how far that is. */
export function Erased({ subject }: { subject: string }) {
  const one = useErasures().find((it) => it.subject === subject);
  if (one === undefined) return null;
  return (
    <div className="notice warn" role="status">
      <p>
        <strong>This subject is erased</strong>, asked for <Time at={one.asked_at} ago />.{" "}
        {STATES[one.state]} Its usage is kept as{" "}
        <Link href={`/subject?key=${encodeURIComponent(one.pseudonym)}`}>{one.pseudonym}</Link>.
      </p>
    </div>
  );
}

/** The newest erasures; nothing where there was none. */
export function Erasures() {
  const found = useErasures();
  if (found.length === 0) return null;
  return (
    <Card title="Erasures, the newest first">
      <Table
        label="Erasures"
        rows={found}
        id={(one) => one.id}
        columns={[
          {
            head: "Subject",
            cell: (one) =>
              one.subject === undefined ? (
                <span className="muted">forgotten</span>
              ) : (
                <Name>{one.subject}</Name>
              ),
          },
          {
            head: "Kept as",
            cell: (one) => (
              <Link href={`/subject?key=${encodeURIComponent(one.pseudonym)}`}>
                {one.pseudonym}
              </Link>
            ),
          },
          { head: "State", cell: (one) => <State of={one.state} /> },
          {
            head: "What that means",
            cell: (one) => <div className="words">{STATES[one.state]}</div>,
          },
          { head: "Asked for", cell: (one) => <Time at={one.asked_at} ago /> },
        ]}
      />
    </Card>
  );
}
