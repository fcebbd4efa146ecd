import { useEffect, useState } from "preact/hooks";

import { get, Problem, remove, onSignedOut, type WhoAmI } from "./api";
import { address, go, parts } from "./router";
import { name } from "./format";
import { DataViews } from "./views/data";
import { Actions } from "./views/actions";
import { Exercises } from "./views/exercises";
import { Files } from "./views/files";
import { Hosts } from "./views/hosts";
import { WorldMap } from "./views/map";
import { NewTransfer } from "./views/new_transfer";
import { Operate } from "./views/operate";
import { Promises } from "./views/promises";
import { Queue } from "./views/queue";
import { Repeats } from "./views/repeats";
import { Shared } from "./views/shared";
import { Shares } from "./views/shares";
import { remembered, SignIn } from "./views/sign_in";
import { Sites } from "./views/sites";
import { Transfer } from "./views/transfer";
import { Transfers } from "./views/transfers";
import { Usage } from "./views/usage";
import { Watch } from "./views/watch";
import { WhatIf } from "./views/what_if";

const ROLES = ["user", "operator", "admin"];

/** Whether a member has this role or a higher one. */
export function may(who: WhoAmI, role: string): boolean {
  return ROLES.indexOf(who.role) >= ROLES.indexOf(role);
}

/** The page: that of a share link, or the portal for members. */
export function App() {
  const [first, token] = parts().path;
  return first === "s" && token !== undefined ? <Shared token={token} /> : <Portal />;
}

/** The pages for members. */
function Portal() {
  const [who, setWho] = useState<WhoAmI | null>();
  const [problem, setProblem] = useState<Problem>();
  useEffect(() => {
    onSignedOut(() => setWho(null));
    const known = (member: WhoAmI) => {
      const wanted = remembered();
      if (wanted && address.value === "/") go(wanted);
      setWho(member);
    };
    get<WhoAmI>("/api/v1/whoami").then(known, (why: Problem) => (why.status === 401 ? setWho(null) : setProblem(why)));
  }, []);
  if (problem) return <main tabIndex={-1}><p role="alert">{problem.message}</p></main>;
  if (who === undefined) return <main tabIndex={-1}><p>Loading…</p></main>;
  if (who === null) return <SignIn onSignedIn={setWho} />;
  const signOut = () => void remove("/api/v1/session").finally(() => setWho(null));
  return (
    <>
      <a class="skip" href="#main" onClick={skip}>Skip to the page</a>
      <header>
        <a class="home" href="/">Longhaul</a>
        <nav aria-label="Portal">
          <Tab to="/files" text="Files" />
          <Tab to="/transfers" text="Transfers" />
          <Tab to="/data" text="Datasets" />
          <Tab to="/shares" text="Shared" />
          <Tab to="/usage" text="Storage" />
          <Tab to="/watch" text="Watch" />
          <Tab to="/map" text="Map" />
          <Tab to="/queue" text="Queue" />
          <Tab to="/reservations" text="Reservations" />
          <Tab to="/sites" text="Sites" />
          <Tab to="/what-if" text="What if" />
          <Tab to="/exercises" text="Exercises" />
          {may(who, "operator") && <Tab to="/operate" text="Operation" />}
          {may(who, "operator") && <Tab to="/hosts" text="Hosts" />}
          {may(who, "operator") && <Tab to="/actions" text="Audit trail" />}
        </nav>
        <span class="who">{name(who.owner)} ({who.role})</span>
        <button type="button" onClick={signOut}>Sign out</button>
      </header>
      <main id="main" tabIndex={-1}>
        <View who={who} />
      </main>
    </>
  );
}

function skip(event: Event): void {
  event.preventDefault();
  document.getElementById("main")?.focus();
}

function Tab({ to, text }: { to: string; text: string }) {
  const isHere = address.value.startsWith(to) || (to === "/transfers" && address.value === "/");
  return <a href={to} aria-current={isHere ? "page" : undefined}>{text}</a>;
}

function View({ who }: { who: WhoAmI }) {
  const { path } = parts();
  const [first, second] = path;
  if (first === undefined || (first === "transfers" && second === undefined)) return <Transfers who={who} />;
  if (first === "transfers" && second === "new") return <NewTransfer />;
  if (first === "transfers" && second !== undefined) return <Transfer id={second} />;
  if (first === "files") return <Files />;
  if (first === "data") return <DataViews />;
  if (first === "watch") return <Watch />;
  if (first === "repeats") return <Repeats />;
  if (first === "shares") return <Shares />;
  if (first === "usage") return <Usage />;
  if (first === "map") return <WorldMap />;
  if (first === "queue") return <Queue />;
  if (first === "reservations") return <Promises />;
  if (first === "sites") return <Sites who={who} site={second} />;
  if (first === "what-if") return <WhatIf />;
  if (first === "exercises") return <Exercises />;
  if (first === "hosts") return <Hosts endpoint={second} />;
  if (first === "actions") return <Actions />;
  if (first === "operate") return <Operate />;
  return (
    <>
      <h1>There is no such page</h1>
      <p>The address may belong to another version of the portal. Begin at <a href="/">Transfers</a>.</p>
    </>
  );
}
