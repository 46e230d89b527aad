import { memo } from "react";
import { Tab, TabList, TabPanel, Tabs } from "react-aria-components";

import { API, text, type Schemas } from "../api.js";
import { curl, go, typescript } from "../rules/snippets.js";
import { useKeyed } from "../state.js";
import { Card, Code } from "./basics.js";

/** The query that is seen, as programs. */
export const Programs = memo(function Programs({
  meter,
  query,
}: {
  meter: string;
  query: Schemas["QueryRequest"];
}) {
  const keyed = useKeyed();
  const asked = query as Parameters<typeof curl>[2];
  const programs = [
    ["curl", curl(location.origin, meter, asked, keyed)],
    ["TypeScript", typescript(location.origin, meter, asked, keyed)],
    ["Go", go(location.origin, meter, asked, keyed)],
  ] as const;
  return (
    <Card title="This query in a program">
      <Tabs>
        <TabList aria-label="Language" className="tabs">
          {programs.map(([name]) => (
            <Tab key={name} id={name} className="tab">
              {name}
            </Tab>
          ))}
        </TabList>
        {programs.map(([name, program]) => (
          <TabPanel key={name} id={name}>
            <Code label={`The query in ${name}`} text={program} />
          </TabPanel>
        ))}
      </Tabs>
    </Card>
  );
});

/** Save the rows of a query as a file, as the server writes them. */
export async function saveCsv(meter: string, query: Schemas["QueryRequest"]): Promise<void> {
  const headers = { "Content-Type": "application/json", Accept: "text/csv" };
  const rows = await text(`${API}/meters/${encodeURIComponent(meter)}/query`, {
    method: "POST",
    headers,
    body: JSON.stringify(query),
  });
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([rows], { type: "text/csv" }));
  link.download = `${meter}.csv`;
  link.click();
  URL.revokeObjectURL(link.href);
}
