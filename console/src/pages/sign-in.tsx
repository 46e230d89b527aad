import { useMutation, useQueryClient } from "@tanstack/react-query";

import { signIn } from "../api.js";
import { Code, Failure } from "../parts/basics.js";

/** Sign in with a key. The key goes to the server once and is kept nowhere here. */
export default function SignIn() {
  const client = useQueryClient();
  const enter = useMutation({
    mutationFn: signIn,
    onSuccess: () => {
      // What the key before was shown is not shown to this one.
      client.removeQueries({ predicate: ({ queryKey }) => queryKey[0] !== "session" });
      return client.invalidateQueries({ queryKey: ["session"] });
    },
  });
  return (
    <main className="alone">
      <h1>Sign in to Meterline</h1>
      <form
        className="card"
        onSubmit={(event) => {
          event.preventDefault();
          enter.mutate(String(new FormData(event.currentTarget).get("key")).trim());
        }}
      >
        <label className="field">
          <span>API key</span>
          <input name="key" type="password" autoComplete="off" required placeholder="mtl_…" />
        </label>
        <button type="submit" className="button main" disabled={enter.isPending}>
          Sign in
        </button>
        {enter.error && <Failure error={enter.error} />}
      </form>
      <p className="muted">No key yet? Who runs the server makes one:</p>
      <Code label="Command that makes a key" text="meterline keys create --name me" />
    </main>
  );
}
