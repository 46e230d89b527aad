import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

// The server for `npm run dev`: `make run`, or another address.
const server = process.env["METERLINE_URL"] ?? "http://127.0.0.1:8888";

export default defineConfig({
  base: "/console/",
  plugins: [react()],
  build: {
    outDir: "../control/console",
    emptyOutDir: true,
    assetsInlineLimit: 0, // a data: URL would need more of the content security policy
    modulePreload: { polyfill: false }, // the polyfill is an inline script
    reportCompressedSize: false,
    target: "es2023",
  },
  server: { proxy: { "/api": server } },
});
