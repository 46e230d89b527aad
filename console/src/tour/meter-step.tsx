import { useMutation, useQueryClient } from "@tanstack/react-query";

import { api, unwrap, type Schemas } from "../api.js";
import { Failure, Link, Name } from "../parts/basics.js";
import { PLAIN_PATH } from "../rules/first.js";

/** A small form with what the README writes; the page Meters has the whole one. */
export function MakeMeter() {
  const client = useQueryClient();
  const make = useMutation({
    mutationFn: async (body: Schemas["MeterRequest"]) =>
      unwrap(await api.POST("/api/v3/metering/meters", { body })),
    onSuccess: () => client.invalidateQueries({ queryKey: ["meters"] }),
  });
  return (
    <>
      <p>
        A meter says which events count, and which value of them. This one adds up the tokens of all
        events of type <code>completion</code>.
      </p>
      <form
        className="filters"
        onSubmit={(sent) => {
          sent.preventDefault();
          const form = new FormData(sent.currentTarget);
          make.mutate({
            key: String(form.get("key")),
            name: String(form.get("name")),
            aggregation: "sum",
            event_type: String(form.get("type")),
            value_property: String(form.get("value")),
            dimensions: { model: "$.model" },
          });
        }}
      >
        <Field label="Key, for programs" name="key" value="tokens" pattern="[a-z][a-z0-9_]*" />
        <Field label="Name, for people" name="name" value="Tokens used" />
        <Field label="Type of its events" name="type" value="completion" />
        <Field
          label="Where the value is"
          name="value"
          value="$.tokens"
          pattern={PLAIN_PATH.source.slice(1, -1)}
        />
        <button type="submit" className="button main" disabled={make.isPending}>
          Make the meter
        </button>
      </form>
      {make.error && <Failure error={make.error} />}
    </>
  );
}

export function MeterMade({ meter }: { meter: Schemas["Meter"] }) {
  return (
    <p className="muted">
      <Link href={`/meters/${meter.key}`}>
        <Name>{meter.name}</Name>
      </Link>{" "}
      counts events of type <Name>{meter.event_type}</Name>.
    </p>
  );
}

export function Field({
  label,
  name,
  value,
  pattern,
  type = "text",
}: {
  label: string;
  name: string;
  value: string;
  pattern?: string;
  type?: string;
}) {
  return (
    <label className="field">
      <span>{label}</span>
      <input
        name={name}
        type={type}
        defaultValue={value}
        required
        maxLength={200}
        {...(pattern === undefined ? {} : { pattern })}
      />
    </label>
  );
}
