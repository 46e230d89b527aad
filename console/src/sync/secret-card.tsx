import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { api, unwrap, type Schemas } from "../api.js";
import { FormDialog } from "../forms/dialog.js";
import { Select } from "../forms/fields.js";
import { faultAt } from "../forms/faults.js";
import { Secret } from "../forms/secret.js";
import { Card, Failure, Time } from "../parts/basics.js";
import { useMay } from "../state.js";

type Signing = Schemas["SigningSecret"];

/** The secret that signs the deliveries of a sync: seen on request, and rotated with an overlap. */
export function SecretCard({ sync }: { sync: Schemas["Report"] }) {
  const may = useMay();
  const [signing, setSigning] = useState<Signing>();
  const params = { path: { reportId: sync.id } };
  const show = useMutation({
    mutationFn: async () =>
      unwrap(await api.GET("/api/v3/metering/reports/{reportId}/secret", { params })),
    onSuccess: setSigning,
    gcTime: 0,
  });
  if (!may("secrets:read")) return null;
  return (
    <Card
      title="Signing secret"
      aside={
        <div className="row">
          {signing === undefined ? (
            <button
              type="button"
              className="button"
              disabled={show.isPending}
              onClick={() => show.mutate()}
            >
              Show it
            </button>
          ) : (
            <button type="button" className="button" onClick={() => setSigning(undefined)}>
              Hide it
            </button>
          )}
          <Rotate sync={sync} rotated={setSigning} />
        </div>
      }
    >
      {show.error && <Failure error={show.error} />}
      {signing === undefined ? (
        <p className="muted">Each delivery is signed with it. Who looks at it is recorded.</p>
      ) : (
        <>
          <Secret label="Signing secret" text={signing.signing_secret} once={false} />
          {signing.previous.map((one) => (
            <div key={one.signing_secret} className="form">
              <p className="muted">
                This one signs as well until <Time at={one.signs_until} />:
              </p>
              <Secret label="Earlier secret" text={one.signing_secret} once={false} />
            </div>
          ))}
        </>
      )}
    </Card>
  );
}

function Rotate({
  sync,
  rotated,
}: {
  sync: Schemas["Report"];
  rotated: (signing: Signing) => void;
}) {
  const client = useQueryClient();
  const [overlap, setOverlap] = useState("86400");
  const act = async () => {
    rotated(
      unwrap(
        await api.POST("/api/v3/metering/reports/{reportId}/secret/rotate", {
          params: { path: { reportId: sync.id } },
          body: { overlap_seconds: Number(overlap) },
        }),
      ),
    );
    await client.invalidateQueries({ queryKey: ["reports"] });
  };
  return (
    <FormDialog
      open="Rotate it"
      title={`Rotate the secret of ${sync.slug}?`}
      submit="Rotate"
      act={act}
      fields={["overlap_seconds"]}
    >
      {(faults) => (
        <>
          <p>
            A new secret is made. Until the overlap ends, deliveries are signed with both, so the
            receiver can change over at any moment.
          </p>
          <Select
            label="The present secret signs for"
            value={overlap}
            set={setOverlap}
            options={[
              ["3600", "1 more hour"],
              ["86400", "1 more day"],
              ["604800", "7 more days"],
              ["0", "no longer: it ends at once"],
            ]}
            hint={overlap === "0" ? "Deliveries fail until the receiver has the new one." : ""}
            error={faultAt(faults, "overlap_seconds")}
          />
        </>
      )}
    </FormDialog>
  );
}
