import { useMutation, useQueryClient } from "@tanstack/react-query";

import { api, unwrap, type Schemas } from "../api.js";
import { Ask } from "../parts/ask.js";
import {
  Answer,
  Card,
  Code,
  CursorPages,
  Empty,
  Failure,
  Name,
  Page,
  State,
  Table,
  Time,
} from "../parts/basics.js";
import { useApi, useMay, useParam } from "../state.js";

const SCOPES: readonly Schemas["Scope"][] = [
  "events:write",
  "events:read",
  "meters:read",
  "meters:write",
  "subjects:read",
  "subjects:write",
  "usage:read",
  "reports:read",
  "reports:write",
  "secrets:read",
  "keys:read",
  "keys:write",
  "changes:read",
  "status:read",
];

export default function Keys() {
  const may = useMay();
  const client = useQueryClient();
  const [after] = useParam("after");
  const keys = useApi(["keys", after], async () =>
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
            <Empty title="No key yet">
              <p>Make the first one by command, then require keys:</p>
              <Code
                label="Commands that require keys"
                text={"meterline keys create --name admin\nMETERLINE_ACCESS_MODE=keys meterline up"}
              />
            </Empty>
          ) : (
            <>
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
                    { head: "Created", cell: (key) => <Time at={key.created_at} /> },
                    {
                      head: "End it",
                      cell: (key) =>
                        may("keys:write") &&
                        key.state === "active" && (
                          <Ask
                            open="Revoke"
                            title={`Revoke ${key.name}?`}
                            words="It is refused within 5 seconds, everywhere. This cannot be undone."
                            acts={[["Revoke", revoke(key.id)]]}
                          />
                        ),
                    },
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

function Create() {
  const may = useMay();
  const client = useQueryClient();
  const create = useMutation({
    mutationFn: async (body: Schemas["ApiKeyRequest"]) =>
      unwrap(await api.POST("/api/v3/metering/api-keys", { body })),
    onSuccess: () => client.invalidateQueries({ queryKey: ["keys"] }),
  });
  return (
    <Card title="Make a key">
      <form
        className="filters"
        onSubmit={(event) => {
          event.preventDefault();
          const form = new FormData(event.currentTarget);
          create.mutate({
            name: String(form.get("name")),
            scopes: form.getAll("scope") as Schemas["Scope"][],
          });
        }}
      >
        <label className="field">
          <span>Name</span>
          <input name="name" required maxLength={100} />
        </label>
        <fieldset className="scopes">
          <legend>Scopes</legend>
          {SCOPES.filter(may).map((scope) => (
            <label key={scope}>
              <input type="checkbox" name="scope" value={scope} /> {scope}
            </label>
          ))}
        </fieldset>
        <button type="submit" className="button main" disabled={create.isPending}>
          Make it
        </button>
      </form>
      {create.error && <Failure error={create.error} />}
      {create.data && (
        <div className="notice good">
          <p>
            <strong>Copy it now: it is shown this once.</strong>
          </p>
          <Code label="The new key" text={create.data.key} />
        </div>
      )}
    </Card>
  );
}
