import type { Schemas } from "../api.js";
import { Link, Name, State, Table, Time } from "./basics.js";

export function DeliveryTable({ rows }: { rows: readonly Schemas["Delivery"][] }) {
  return (
    <Table
      label="Deliveries"
      rows={rows}
      id={(one) => one.id}
      columns={[
        {
          head: "Subject",
          cell: (one) => (
            <Link href={`/deliveries/${one.id}`}>
              <Name>{one.subject}</Name>
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
