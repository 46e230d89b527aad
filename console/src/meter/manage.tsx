import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useLocation } from "wouter";

import { api, unwrap, type Schemas } from "../api.js";
import { FormDialog } from "../forms/dialog.js";
import { Field } from "../forms/fields.js";
import { Answer, Card, CursorPages, Link, State, Table, Time } from "../parts/basics.js";
import { useApi, useMay, useParam } from "../state.js";

type Meter = Schemas["Meter"];

/** Where a meter of the settings file is changed: the server refuses it here. */
export function InSettings() {
  return (
    <p>
      The settings file of the server defines this meter (<code>meters</code>). Change it there, and
      start the server again. To end it here, take it out of the file first.
    </p>
  );
}

/** What can be done to a meter: revise it, end it. */
export function MeterActions({ meter }: { meter: Meter }) {
  const may = useMay();
  if (meter.from_settings || !may("meters:write")) return null;
  return (
    <>
      <Link href={`/meters/${meter.key}/revise`} className="button">
        Revise
      </Link>
      <End meter={meter} />
    </>
  );
}

function End({ meter }: { meter: Meter }) {
  const [, navigate] = useLocation();
  const client = useQueryClient();
  const [key, setKey] = useState("");
  const act = async () => {
    const params = { path: { meterId: meter.id } };
    unwrap(await api.DELETE("/api/v3/metering/meters/{meterId}", { params }));
    navigate("/meters");
    await client.invalidateQueries({ queryKey: ["meters", "list"] });
  };
  return (
    <FormDialog
      open="End"
      opened={() => setKey("")}
      title={`End ${meter.name}?`}
      submit="End the meter"
      act={act}
      ready={key === meter.key}
      danger
    >
      {() => (
        <>
          <p>
            Its usage is not answered any more, and this cannot be undone. Its events are kept. A
            meter that a sync uses cannot be ended: end the sync first.
          </p>
          <Field label={`Write ${meter.key} to confirm`} value={key} set={setKey} needed code />
        </>
      )}
    </FormDialog>
  );
}

/** The revisions of a meter, where there is more than the first. */
export function Revisions({ meter }: { meter: Meter }) {
  const [after] = useParam("revisions");
  const found = useApi(["revisions", meter.key, "list", after], async () =>
    unwrap(
      await api.GET("/api/v3/metering/meters/{meterId}/revisions", {
        params: {
          path: { meterId: meter.id },
          query: { page: { size: 10, ...(after ? { after } : {}) } },
        },
      }),
    ),
  );
  return (
    <Answer of={found}>
      {({ data, meta }) =>
        data.length < 2 && !after ? null : (
          <Card title="Revisions, the newest first">
            <Table
              label="Revisions"
              rows={data}
              id={(one) => String(one.revision)}
              columns={[
                {
                  head: "Revision",
                  cell: (one) => (
                    <Link href={`/meters/${meter.key}/revisions/${one.revision}`}>
                      {one.revision}
                    </Link>
                  ),
                },
                { head: "State", cell: (one) => <State of={one.state} /> },
                {
                  head: "Value",
                  cell: (one) =>
                    one.value_property === undefined ? "events" : <code>{one.value_property}</code>,
                },
                { head: "Proposed", cell: (one) => <Time at={one.created_at} /> },
                {
                  head: "In force from",
                  cell: (one) => (one.switched_at ? <Time at={one.switched_at} /> : ""),
                },
              ]}
            />
            <CursorPages next={meta.page.next} param="revisions" />
          </Card>
        )
      }
    </Answer>
  );
}
