import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { api, signIn, unwrap, type Schemas } from "../api.js";
import { AskForm } from "../forms/ask-form.js";
import { FormDialog } from "../forms/dialog.js";
import { faultAt, faultsOf } from "../forms/faults.js";
import { Boxes, Field, Select } from "../forms/fields.js";
import { Secret } from "../forms/secret.js";
import { Ask } from "../parts/ask.js";
import {
  Answer,
  Card,
  Code,
  CursorPages,
  Empty,
  EmptyPage,
  Name,
  Page,
  State,
  Table,
  Time,
} from "../parts/basics.js";
import { useApi, useKeyed, useMay, useOwnKey, useParam } from "../state.js";

type Key = Schemas["ApiKey"];

/** What each scope is for. A key is offered those that the viewer has. */
const SCOPES: readonly (readonly [Schemas["Scope"], string])[] = [
  ["events:write", "send events"],
  ["events:read", "see events and their contents"],
  ["usage:read", "query usage"],
  ["meters:read", "see meters"],
  ["meters:write", "create, revise and end meters"],
  ["subjects:read", "see subjects"],
  ["subjects:write", "name subjects"],
  ["subjects:erase", "erase subjects for good"],
  ["reports:read", "see syncs and deliveries"],
  ["reports:write", "create and run syncs, replay"],
  ["secrets:read", "see and rotate signing secrets"],
  ["keys:read", "see keys"],
  ["keys:write", "create, rotate and revoke keys"],
  ["changes:read", "see who changed what"],
  ["status:read", "see the status"],
];
const DAY_MS = 86_400_000;

export default function Keys() {
  const may = useMay();
  const keyed = useKeyed();
  const client = useQueryClient();
  const [after] = useParam("after");
  const keys = useApi(["keys", "list", after], async () =>
    unwrap(
      await api.GET("/api/v3/metering/api-keys", {
        params: { query: { page: { size: 50, ...(after ? { after } : {}) } } },
      }),
    ),
  );
  const revoke = (id: string) => async () => {
    unwrap(
      await api.DELETE("/api/v3/metering/api-keys/{apiKeyId}", {
        params: { path: { apiKeyId: id } },
      }),
    );
    await client.invalidateQueries({ queryKey: ["keys"] });
  };
  return (
    <Page title="Keys">
      {may("keys:write") && <Create />}
      <Answer of={keys}>
        {({ data, meta }) =>
          data.length === 0 ? (
            <EmptyPage next={meta.page.next}>
              <NoKey />
            </EmptyPage>
          ) : (
            <>
              {!keyed && (
                <div className="notice warn">
                  <p>
                    <strong>This server asks for no key.</strong> Who reaches it may do everything.
                    Start it with <code>METERLINE_ACCESS_MODE=keys</code> to require one.
                  </p>
                </div>
              )}
              <Card title="API keys">
                <Table
                  label="Keys"
                  rows={data}
                  id={(key) => key.id}
                  columns={[
                    { head: "Name", cell: (key) => <Name>{key.name}</Name> },
                    { head: "State", cell: (key) => <State of={key.state} /> },
                    { head: "Scopes", cell: (key) => key.scopes.join(", ") },
                    { head: "Last used", cell: (key) => <Time at={key.last_used_at} ago /> },
                    { head: "Ends", cell: (key) => <Time at={key.expires_at} /> },
                    { head: "Secret", cell: (key) => <SecretAge of={key} /> },
                    ...(may("keys:write")
                      ? [
                          {
                            head: "Change it",
                            cell: (key: Key) =>
                              key.state === "active" && (
                                <div className="row">
                                  <Rotate of={key} />
                                  <Ask
                                    open="Revoke"
                                    title={`Revoke ${key.name}?`}
                                    words="It is refused within 5 seconds, everywhere. This cannot be undone."
                                    acts={[["Revoke", revoke(key.id)]]}
                                  />
                                </div>
                              ),
                          },
                        ]
                      : []),
                  ]}
                />
              </Card>
              <CursorPages next={meta.page.next} />
            </>
          )
        }
      </Answer>
    </Page>
  );
}

function NoKey() {
  return (
    <Empty title="No key yet">
      <p>
        Whoever reaches this server may do everything. To require keys, create one with all scopes,
        then start the server anew:
      </p>
      <Code
        label="Commands that require keys"
        text={"meterline keys create --name admin\nMETERLINE_ACCESS_MODE=keys meterline up"}
      />
    </Empty>
  );
}

function SecretAge({ of }: { of: Key }) {
  return (
    <>
      <Time at={of.rotated_at ?? of.created_at} ago />
      {of.previous_secret_until && (
        <div className="hint">
          the previous one until <Time at={of.previous_secret_until} />
        </div>
      )}
    </>
  );
}

function Create() {
  const may = useMay();
  const client = useQueryClient();
  const [name, setName] = useState("");
  const [scopes, setScopes] = useState<readonly string[]>([]);
  const [days, setDays] = useState("");
  const [made, setMade] = useState(""); // it stays until another one is made: it is shown once
  const create = useMutation({
    mutationFn: async () => {
      const expires = new Date(Date.now() + Number(days) * DAY_MS).toISOString();
      const body = {
        name,
        scopes: scopes as Schemas["Scope"][],
        ...(days === "" ? {} : { expires_at: expires }),
      };
      return unwrap(await api.POST("/api/v3/metering/api-keys", { body }));
    },
    gcTime: 0, // its answer has the secret
    onSuccess: async ({ key }) => {
      setMade(key);
      setName("");
      setScopes([]);
      await client.invalidateQueries({ queryKey: ["keys"] });
    },
  });
  const faults = faultsOf(create.error);
  return (
    <Card title="New key">
      <AskForm
        ask={create}
        submit="Create the key"
        refused={faults}
        fields={["name", "scopes", "expires_at"]}
      >
        <div className="cards">
          <Field
            label="Name"
            value={name}
            set={setName}
            hint="Who or what uses it."
            error={faultAt(faults, "name")}
            needed
          />
          <Select
            label="Ends"
            value={days}
            set={setDays}
            options={[
              ["", "when it is revoked"],
              ["1", "after 1 day"],
              ["30", "after 30 days"],
              ["90", "after 90 days"],
              ["365", "after a year"],
            ]}
            error={faultAt(faults, "expires_at")}
          />
        </div>
        <Boxes
          label="Scopes"
          chosen={scopes}
          set={setScopes}
          options={SCOPES.filter(([scope]) => may(scope))}
          hint="Choose at least one. A key may create keys with its own scopes only."
          error={faultAt(faults, "scopes")}
        />
      </AskForm>
      {made && <Secret label="The new key" text={made} once />}
    </Card>
  );
}

const TRIES = 5;
const TRY_AGAIN_MS = 1000;

/** Sign in anew with the new secret of one's own key: the session ends with the previous secret, and
 * whoever has to sign in does not see the new one. It is known within a few seconds.
 */
async function signInWith(secret: string): Promise<void> {
  for (let tries = 1; ; tries += 1) {
    try {
      await signIn(secret);
      return;
    } catch {
      if (tries === TRIES) return; // the page asks for it
      await new Promise((resolve) => setTimeout(resolve, TRY_AGAIN_MS));
    }
  }
}

/** A new secret for a key; the previous one works as well for a while. */
function Rotate({ of }: { of: Key }) {
  const own = useOwnKey() === of.id;
  const client = useQueryClient();
  const [overlap, setOverlap] = useState("86400");
  const [secret, setSecret] = useState("");
  const act = async () => {
    const made = unwrap(
      await api.POST("/api/v3/metering/api-keys/{apiKeyId}/rotate", {
        params: { path: { apiKeyId: of.id } },
        body: { overlap_seconds: Number(overlap) },
      }),
    );
    setSecret(made.key);
    if (own) await signInWith(made.key);
    await client.invalidateQueries({ queryKey: ["keys"] });
  };
  return (
    <FormDialog
      open="Rotate"
      title={`Rotate the secret of ${of.name}?`}
      submit="Rotate"
      act={act}
      fields={["overlap_seconds"]}
      opened={() => setSecret("")}
      done={<Secret label="The new key" text={secret} once />}
    >
      {(faults) => (
        <Select
          label="The present secret works for"
          value={overlap}
          set={setOverlap}
          options={[
            ["0", "no longer: it ends at once"],
            ["3600", "1 more hour"],
            ["86400", "1 more day"],
            ["604800", "7 more days"],
          ]}
          hint="Give the new secret to all programs meanwhile."
          error={faultAt(faults, "overlap_seconds")}
        />
      )}
    </FormDialog>
  );
}
