import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { Router } from "wouter";

import { met } from "./api.js";
import { Shell } from "./shell.js";
import { ViewProvider } from "./state.js";
import "./styles/base.css";
import "./styles/parts.css";
import "./styles/panels.css";

const BASE = "/console";
if (location.pathname === "/") history.replaceState(null, "", `${BASE}/${location.search}`);

const client = new QueryClient({
  defaultOptions: {
    // "always": a server on this machine answers also without a network.
    queries: { staleTime: 2000, refetchOnWindowFocus: true, networkMode: "always" },
    mutations: { networkMode: "always" },
  },
});
// Where an answer says that the session has ended, the session is asked for, and the sign-in shows.
met.ended = () => void client.invalidateQueries({ queryKey: ["session"] });

createRoot(document.getElementById("root") as HTMLElement).render(
  <StrictMode>
    <QueryClientProvider client={client}>
      <ViewProvider>
        <Router base={BASE}>
          <Shell />
        </Router>
      </ViewProvider>
    </QueryClientProvider>
  </StrictMode>,
);
