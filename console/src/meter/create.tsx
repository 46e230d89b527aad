import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useLocation } from "wouter";

import { api, unwrap } from "../api.js";
import { AskForm } from "../forms/ask-form.js";
import { Field, Needs } from "../forms/fields.js";
import { faultAt, faultsOf, together } from "../forms/faults.js";
import { Link, Page } from "../parts/basics.js";
import { measured, type Definition } from "../rules/draft.js";
import { DEFINITION_FIELDS, DefinitionFields } from "./definition-fields.js";
import { Preview, usePreview } from "./preview.js";
import { useRecentTypes, useSample } from "./samples.js";

const FIELDS = ["key", "name", "description", ...DEFINITION_FIELDS];
const NOTHING: Definition = { aggregation: "sum", eventType: "", value: "", dimensions: [] };

export default function CreateMeter() {
  return (
    <Page title="New meter" aside={<Link href="/meters">All meters</Link>}>
      <Needs scope="meters:write">
        <Form />
      </Needs>
    </Page>
  );
}

/** A key from a name, as people would write it: `Tokens used` is `tokens_used`. */
function keyOf(name: string): string {
  return name
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, "_")
    .replaceAll(/^[^a-z]+|_+$/g, "");
}

function Form() {
  const [, navigate] = useLocation();
  const client = useQueryClient();
  const [name, setName] = useState("");
  const [ownKey, setKey] = useState<string>();
  const [description, setDescription] = useState("");
  const [definition, setDefinition] = useState(NOTHING);
  const key = ownKey ?? keyOf(name);
  const preview = usePreview(definition);
  const sample = useSample(preview.definition.eventType);
  const create = useMutation({
    mutationFn: async () => {
      const body = { key, name, description, ...measured(definition) };
      return unwrap(await api.POST("/api/v3/metering/meters", { body }));
    },
    onSuccess: async (meter) => {
      await client.invalidateQueries({ queryKey: ["meters"] });
      navigate(`/meters/${meter.key}`);
    },
  });
  const faults = together(faultsOf(create.error), preview.faults);
  return (
    <div className="workbench">
      <AskForm
        ask={create}
        submit="Create the meter"
        refused={faultsOf(create.error)}
        fields={FIELDS}
        className="card form"
        hint="It also counts events that were sent before, as far as they are kept."
      >
        <Field
          label="Name"
          value={name}
          set={setName}
          hint="For people, such as Tokens used."
          error={faultAt(faults, "name")}
          needed
        />
        <Field
          label="Key"
          value={key}
          set={setKey}
          hint="For programs: small letters, digits and underscores. It never changes."
          error={faultAt(faults, "key")}
          needed
          code
        />
        <DefinitionFields
          of={definition}
          set={setDefinition}
          faults={faults}
          types={useRecentTypes()}
          paths={sample?.paths ?? []}
        />
        <Field
          label="Description"
          value={description}
          set={setDescription}
          error={faultAt(faults, "description")}
          rows={2}
        />
      </AskForm>
      <div className="beside">
        <Preview of={preview} sample={sample} />
      </div>
    </div>
  );
}
