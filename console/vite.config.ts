import react from "@vitejs/plugin-react";
import { defineConfig, type Plugin } from "vite";

// The server for `npm run dev`: `make run`, or another address.
const server = process.env["METERLINE_URL"] ?? "http://127.0.0.1:8888";

const BASE = "/console/";

/** Names `src/early.ts` before the script of the page, which is a hundred times as large. */
const early: Plugin = {
  name: "early",
  transformIndexHtml: {
    order: "post",
    handler: (_, { bundle }) => {
      const built = Object.values(bundle ?? {}).find(
        (one) => one.type === "chunk" && one.name === "early",
      );
      const src = BASE + (built?.fileName ?? "src/early.ts");
      const attrs = { type: "module", crossorigin: true, src, async: true, fetchpriority: "high" };
      return [{ tag: "script", attrs, injectTo: "head-prepend" }];
    },
  },
};

export default defineConfig({
  base: BASE,
  plugins: [react(), early],
  build: {
    outDir: "../control/console",
    emptyOutDir: true,
    assetsInlineLimit: 0, // a data: URL would need more of the content security policy
    modulePreload: { polyfill: false }, // the polyfill is an inline script
    reportCompressedSize: false,
    rolldownOptions: { input: { index: "index.html", early: "src/early.ts" } },
    target: "es2023",
  },
  server: { proxy: { "/api": server } },
});
