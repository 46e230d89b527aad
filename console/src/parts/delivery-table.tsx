import type { Schemas } from "../api.js";
import { Link, Name, State, Table, Time } from "./basics.js";

/** Deliveries of a sync by their subjects, or those of a subject by their syncs. */
export function DeliveryTable({
  rows,
  by = "Subject",
}: {
  rows: readonly Schemas["Delivery"][];
  by?: "Subject" | "Sync";
}) {
  return (
    <Table
      label="Deliveries"
      rows={rows}
      id={(one) => one.id}
      columns={[
        {
          head: by,
          cell: (one) => (
            <Link href={`/deliveries/${one.id}`}>
              <Name>{by === "Sync" ? one.report.slug : one.subject}</Name>
            </Link>
          ),
        },
        {
          head: "Window",
          cell: (one) => (
            <>
              <Time at={one.from} />{" "}
              <span className="nowrap">
                – <Time at={one.to} />
              </span>
            </>
          ),
        },
        { head: "State", cell: (one) => <State of={one.state} /> },
        { head: "Attempts", number: true, cell: (one) => one.attempt_count },
        { head: "Why", cell: (one) => one.failure ?? "" },
        {
          head: "Next attempt",
          cell: (one) => (one.next_attempt_at ? <Time at={one.next_attempt_at} ago /> : ""),
        },
      ]}
    />
  );
}
