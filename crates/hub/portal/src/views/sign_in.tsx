import { useEffect, useState } from "preact/hooks";

import { get, Problem, signIn, type WhoAmI } from "../api";
import { Title, Trouble } from "../parts";
import { name } from "../format";

/** The storage key of the page that a user wanted before signing in at a provider. */
const PAGE_KEY = "longhaul-place";

function remember(): void {
  sessionStorage.setItem(PAGE_KEY, location.pathname + location.search);
}

/** Returns the remembered page, and forgets it. */
export function remembered(): string | undefined {
  const page = sessionStorage.getItem(PAGE_KEY);
  sessionStorage.removeItem(PAGE_KEY);
  return page?.startsWith("/") ? page : undefined;
}

/** The sign-in form. The access key is not kept: a cookie holds the session. */
export function SignIn({ onSignedIn }: { onSignedIn: (who: WhoAmI) => void }) {
  const [problem, setProblem] = useState<Problem>();
  // A link may contain the key: it is filled in, and the reader still has to press the button.
  const [key, setKey] = useState(() => decodeURIComponent(/^#key=(.+)$/.exec(location.hash)?.[1] ?? ""));
  const [isBusy, setBusy] = useState(false);
  const [providers, setProviders] = useState<{ id: string; title: string }[]>([]);
  useEffect(() => {
    // Without an answer, readers can still sign in with a key.
    get<{ providers: { id: string; title: string }[] }>("/api/v1/sign-in").then((answer) => setProviders(answer.providers), () => {});
  }, []);
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    setBusy(true);
    try {
      onSignedIn(await signIn(key.trim()));
      history.replaceState(null, "", location.pathname + location.search);
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
      {providers.map(({ id, title }) => (
        <p key={id}><a class="button" href={`/api/v1/sign-in/${id}`} onClick={remember}>Sign in with {name(title)}</a></p>
      ))}
      <form onSubmit={submit}>
        <label>
          Access key or token
          <input name="key" type="password" autocomplete="current-password" required autofocus value={key} onInput={(event) => setKey(event.currentTarget.value)} />
        </label>
        <button type="submit" disabled={isBusy}>Sign in</button>
      </form>
      <Trouble problem={problem} />
      <p class="hint">An operator of the collaboration makes keys with <code>longhaul hub grant</code>. The page does not store your key. The session ends when you sign out, after 12 hours without use, or when the key is revoked.</p>
    </main>
  );
}
