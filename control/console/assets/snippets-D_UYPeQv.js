function e(e){return`'${e.replaceAll(`'`,`'\\''`)}'`}function t(e){return`/api/v3/metering/meters/${encodeURIComponent(e)}/query`}function n(t,n,i,a=`application/json`){return`curl ${e(t)} \\\n  -H 'Content-Type: ${a}'${r(i)} \\\n  -d ${e(JSON.stringify(n,null,2))}`}function r(e){return e?` \\
  -H "Authorization: Bearer $METERLINE_API_KEY"`:``}function i(e,r,i,a){return n(e+t(r),i,a)}function a(e,t,n,r){let i=r?`, apiKey: process.env["METERLINE_API_KEY"] ?? ""`:``;return`import { createClient, unwrap } from "@meterline/client";

const client = createClient({ baseUrl: ${JSON.stringify(e)}${i} });
const usage = unwrap(
  await client.POST("/api/v3/metering/meters/{meterId}/query", {
    params: { path: { meterId: ${JSON.stringify(t)} } },
    body: ${JSON.stringify(n,null,2).replaceAll(`
`,`
    `)},
  }),
);
for (const row of usage.data) console.log(row.from, row.dimensions, row.value);`}function o(e,n,r,i){let a=i?`
request.Header.Set("Authorization", "Bearer "+os.Getenv("METERLINE_API_KEY"))`:``;return`body := strings.NewReader(${s(JSON.stringify(r))})
request, err := http.NewRequest("POST", ${s(e+t(n))}, body)
if err != nil {
	return err
}
request.Header.Set("Content-Type", "application/json")${a}
answer, err := http.DefaultClient.Do(request)`}function s(e){return e.includes("`")?JSON.stringify(e):`\`${e}\``}export{n as a,r as i,o as n,e as o,s as r,a as s,i as t};