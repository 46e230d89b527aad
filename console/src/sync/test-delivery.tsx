import { useMutation } from "@tanstack/react-query";

import { api, unwrap } from "../api.js";
import { Card, Code, Facts, Failure, State } from "../parts/basics.js";
import { grouped } from "../rules/figures.js";

/** One signed message to the receiver now, and what came of it in words. */
export function TestDelivery({ sync }: { sync: string }) {
  const test = useMutation({
    mutationFn: async () =>
      unwrap(
        await api.POST("/api/v3/metering/reports/{reportId}/test", {
          params: { path: { reportId: sync } },
        }),
      ),
  });
  return (
    <Card
      title="Test delivery"
      aside={
        <button
          type="button"
          className="button"
          disabled={test.isPending}
          onClick={() => test.mutate()}
        >
          {test.isPending ? "Sending …" : "Send a test delivery"}
        </button>
      }
    >
      <p className="muted">
        A signed message without usage. A receiver knows it by <code>run.trigger</code>{" "}
        <code>test</code>, and must not book it.
      </p>
      <div aria-live="polite" className="form">
        {test.error && <Failure error={test.error} />}
        {test.data && (
          <>
            <div className={`notice ${test.data.delivered ? "good" : "bad"}`}>
              <p>
                <strong>
                  {test.data.delivered ? "The receiver took it." : "It did not arrive."}
                </strong>{" "}
                {test.data.verdict}
              </p>
            </div>
            <Facts
              of={[
                ["Outcome", <State key="o" of={test.data.outcome} />],
                ["Status", test.data.status ?? "none"],
                ["Took", `${grouped(String(test.data.duration_ms))} ms`],
                ["Id", <code key="i">{test.data.delivery_id}</code>],
              ]}
            />
            {test.data.answer && (
              <Code label="What the receiver answered" text={test.data.answer} />
            )}
            <Code label="The body of the test" text={test.data.body} />
          </>
        )}
      </div>
    </Card>
  );
}
