import { QueryCache, QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { Router } from "wouter";

import { ProblemError } from "./api.js";
import { Shell } from "./shell.js";
import { ViewProvider } from "./state.js";
import "./styles/base.css";
import "./styles/parts.css";
import "./styles/panels.css";

const BASE = "/console";
if (location.pathname === "/") history.replaceState(null, "", `${BASE}/${location.search}`);

// Where an answer says that the session has ended, the session is asked for, and the sign-in shows.
const queryCache = new QueryCache({
  onError: (error) => {
    if (error instanceof ProblemError && error.status === 401)
      void client.invalidateQueries({ queryKey: ["session"] });
  },
});
const client = new QueryClient({
  queryCache,
  defaultOptions: { queries: { staleTime: 2000, refetchOnWindowFocus: true } },
});

// After an upgrade a page of before may name a file that is gone: its pages are loaded anew, once.
window.addEventListener("vite:preloadError", (event) => {
  if (sessionStorage.getItem("meterline.reloaded") === location.href) return;
  sessionStorage.setItem("meterline.reloaded", location.href);
  event.preventDefault();
  location.reload();
});

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
