import { useMutation, useQueryClient } from "@tanstack/react-query";

import { signIn, type Session } from "../api.js";
import { Code, Failure, Name } from "../parts/basics.js";

/** Sign in with a key. The key goes to the server once and is kept nowhere here. `before` is the session
 * that ended in this tab: its page, with all that was written there, waits for the same key.
 */
export default function SignIn({ before }: { before: Session | undefined }) {
  const client = useQueryClient();
  const enter = useMutation({
    mutationFn: signIn,
    onSuccess: ({ key }) => {
      // What the key before was shown is not shown to another one.
      if (key?.id !== before?.key?.id)
        client.removeQueries({ predicate: ({ queryKey }) => queryKey[0] !== "session" });
      return client.invalidateQueries();
    },
  });
  return (
    <main className="alone">
      <h1>Sign in to Meterline</h1>
      {before?.key && (
        <div className="notice" role="status">
          <p>
            Your session has ended. Your page is kept, with what you wrote there: sign in with the
            same key, <Name>{before.key.name}</Name>, to go on.
          </p>
        </div>
      )}
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
