import { useState } from "preact/hooks";

import { Problem, signIn, type WhoAmI } from "../api";
import { Title, Trouble } from "../parts";

/** Asks for an access key, and forgets it: the hub keeps who one is in a cookie. */
export function SignIn({ onSignedIn }: { onSignedIn: (who: WhoAmI) => void }) {
  const [problem, setProblem] = useState<Problem>();
  const [isBusy, setBusy] = useState(false);
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    const form = event.target as HTMLFormElement;
    const key = String(new FormData(form).get("key") ?? "").trim();
    setBusy(true);
    try {
      onSignedIn(await signIn(key));
    } catch (why) {
      const { status, message } = why as Problem;
      setProblem(new Problem(status, status === 401 ? `${message}: copy the whole key, or ask an operator of the hub for a new one (longhaul hub grant).` : message));
    } finally {
      setBusy(false);
    }
  };
  return (
    <main class="narrow" tabIndex={-1}>
      <Title text="Sign in" />
      <form onSubmit={submit}>
        <label>
          Access key or token
          <input name="key" type="password" autocomplete="current-password" required autofocus />
        </label>
        <button type="submit" disabled={isBusy}>Sign in</button>
      </form>
      <Trouble problem={problem} />
      <p class="hint">An operator of the collaboration makes keys with <code>longhaul hub grant</code>. The page does not keep yours: the session ends when you sign out, after 12 hours without use, or when the key is revoked.</p>
    </main>
  );
}
