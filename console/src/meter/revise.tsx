import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useLocation, useParams } from "wouter";

import { api, unwrap, type Schemas } from "../api.js";
import { AskForm } from "../forms/ask-form.js";
import { Needs } from "../forms/fields.js";
import { faultsOf, together } from "../forms/faults.js";
import { Answer, Link, Name, Page } from "../parts/basics.js";
import { measured, type Definition } from "../rules/draft.js";
import { DEFINITION_FIELDS, DefinitionFields, dimension } from "./definition-fields.js";
import { InSettings } from "./manage.js";
import { useMeter } from "./meter.js";
import { Preview, usePreview } from "./preview.js";
import { useRecentTypes, useSample } from "./samples.js";

type Meter = Schemas["Meter"];

export default function ReviseMeter() {
  const { key = "" } = useParams<{ key: string }>();
  const meter = useMeter(key);
  return (
    <Answer of={meter} page={`Revise ${key}`} all={<Link href="/meters">All meters</Link>}>
      {(found) => (
        <Page
          title={
            <>
              Revise <Name>{found.name}</Name>
            </>
          }
          aside={<Link href={`/meters/${key}`}>Back to the meter</Link>}
        >
          {found.from_settings ? (
            <div className="notice warn">
              <InSettings />
            </div>
          ) : (
            <Proposal meter={found} />
          )}
        </Page>
      )}
    </Answer>
  );
}

function Proposal({ meter }: { meter: Meter }) {
  return (
    <>
      <p className="muted">
        The revision is filled in from stored events, while the one in force goes on answering. Then
        you compare both, and switch or discard it.
      </p>
      <Needs scope="meters:write">
        <Form meter={meter} />
      </Needs>
    </>
  );
}

function Form({ meter }: { meter: Meter }) {
  const [, navigate] = useLocation();
  const client = useQueryClient();
  const [definition, setDefinition] = useState<Definition>(() => ({
    aggregation: meter.aggregation,
    eventType: meter.event_type,
    value: meter.value_property ?? "",
    dimensions: Object.entries(meter.dimensions).map(([name, path]) => dimension(name, path)),
  }));
  const preview = usePreview(definition);
  const sample = useSample(preview.definition.eventType);
  const propose = useMutation({
    mutationFn: async () => {
      const { aggregation: _, ...body } = measured(definition);
      const params = { path: { meterId: meter.id } };
      return unwrap(
        await api.POST("/api/v3/metering/meters/{meterId}/revisions", { params, body }),
      );
    },
    onSuccess: async (made) => {
      await client.invalidateQueries({ queryKey: ["meters"] });
      await client.invalidateQueries({ queryKey: ["revisions"] });
      navigate(`/meters/${meter.key}/revisions/${made.revision}`);
    },
  });
  const refused = faultsOf(propose.error);
  return (
    <div className="workbench">
      <AskForm
        ask={propose}
        submit="Propose the revision"
        refused={refused}
        fields={DEFINITION_FIELDS}
        className="card form"
        hint="Nothing changes for readers and reports until you switch to it."
      >
        <DefinitionFields
          of={definition}
          set={setDefinition}
          faults={together(refused, preview.faults)}
          types={useRecentTypes()}
          paths={sample?.paths ?? []}
          fixed
        />
      </AskForm>
      <div className="beside">
        <Preview of={preview} sample={sample} />
      </div>
    </div>
  );
}
