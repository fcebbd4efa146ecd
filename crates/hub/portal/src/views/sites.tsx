import { useEffect, useState } from "preact/hooks";

import { get, post, put, type Problem, type WhoAmI } from "../api";
import { may } from "../app";
import { Table, Title, Trouble } from "../parts";
import { name, time } from "../format";

interface Question {
  name: string;
  text: string;
  hint: string;
  kind: "number" | "year" | "yes_no" | "choice" | "text";
  unit: string;
  choices: string[];
  required: boolean;
}

interface Site {
  site: string;
  answers: Record<string, string>;
  owner: string;
  changed: string;
  state: string;
  findings: { question: string; is_error: boolean; text: string }[];
}

interface Catalogue {
  sites: Site[];
  round: { deadline: string } | null;
  statistics: {
    sites: number;
    disk_least_pb: number | null;
    disk_most_pb: number | null;
    disk_sum_pb: number;
    writes_beyond_10g: number;
    link_10g: number;
    link_100g: number;
    can_100g: number;
    dtn: number;
    dmz: number;
    firewall: number;
  };
}

/** The catalogue of sites, or the record of one. */
export function Sites({ who, site }: { who: WhoAmI; site?: string }) {
  const [questions, setQuestions] = useState<Question[]>([]);
  const [catalogue, setCatalogue] = useState<Catalogue>();
  const [problem, setProblem] = useState<Problem>();
  useEffect(() => {
    get<{ questions: Question[] }>("/api/v1/plan/questions").then((answer) => setQuestions(answer.questions), setProblem);
    get<Catalogue>("/api/v1/plan/sites").then(setCatalogue, setProblem);
  }, []);
  const act = (request: Promise<Catalogue>) => {
    setProblem(undefined);
    request.then(setCatalogue, setProblem);
  };
  const record = catalogue?.sites.find((one) => one.site === site);
  if (site !== undefined) {
    return (
      <>
        <Title text={`Site ${name(site)}`} />
        <Trouble problem={problem} />
        {catalogue && questions.length > 0 && <Record key={record?.changed ?? ""} site={site} record={record} questions={questions} act={act} />}
        <p class="bar"><a href="/sites">All sites</a></p>
      </>
    );
  }
  return (
    <>
      <Title text="Sites" />
      <Trouble problem={problem} />
      {catalogue && <Overview catalogue={catalogue} />}
      <form class="bar" onSubmit={open}>
        <label>Another site <input name="site" required maxLength={100} /></label>
        <button type="submit">Open its questionnaire</button>
      </form>
      {may(who, "operator") && <RoundForm act={act} />}
    </>
  );
}

function open(event: Event) {
  event.preventDefault();
  const site = String(new FormData(event.target as HTMLFormElement).get("site") ?? "").trim();
  if (site !== "") location.assign(`/sites/${encodeURIComponent(site)}`);
}

function Overview({ catalogue }: { catalogue: Catalogue }) {
  const all = catalogue.statistics;
  const part = (count: number) => `${count} of ${all.sites}`;
  return (
    <>
      {catalogue.round && <p>Each site is asked to confirm its record by {catalogue.round.deadline}.</p>}
      <Table caption="Records" head={["Site", "State", "Findings", "Written by", "Changed"]}>
        {catalogue.sites.map((one) => (
          <tr key={one.site}>
            <th scope="row"><a href={`/sites/${encodeURIComponent(one.site)}`}>{name(one.site)}</a></th>
            <td>{one.state}</td>
            <td>{one.findings.length}</td>
            <td>{name(one.owner)}</td>
            <td>{time(one.changed)}</td>
          </tr>
        ))}
      </Table>
      {all.sites > 0 && (
        <Table caption="All sites together" head={["Fact", "Sites"]}>
          <tr><th scope="row">Disk space</th><td>{all.disk_least_pb} to {all.disk_most_pb} PB per site, {all.disk_sum_pb.toFixed(1)} PB in total</td></tr>
          <tr><th scope="row">Write faster than 10 Gbit/s</th><td>{part(all.writes_beyond_10g)}</td></tr>
          <tr><th scope="row">Link of 10 Gbit/s or more</th><td>{part(all.link_10g)}</td></tr>
          <tr><th scope="row">Link of 100 Gbit/s or more</th><td>{part(all.link_100g)}</td></tr>
          <tr><th scope="row">Link can be raised to 100 Gbit/s</th><td>{part(all.can_100g)}</td></tr>
          <tr><th scope="row">Data transfer node</th><td>{part(all.dtn)}</td></tr>
          <tr><th scope="row">Science DMZ</th><td>{part(all.dmz)}</td></tr>
          <tr><th scope="row">Firewall</th><td>{part(all.firewall)}</td></tr>
        </Table>
      )}
    </>
  );
}

interface RecordProps {
  site: string;
  record?: Site;
  questions: Question[];
  act: (request: Promise<Catalogue>) => void;
}

/** The questionnaire of one site: a form on the screen, a list of questions with lines on paper. */
function Record({ site, record, questions, act }: RecordProps) {
  const path = `/api/v1/plan/sites/${encodeURIComponent(site)}`;
  const save = (event: Event) => {
    event.preventDefault();
    const form = new FormData(event.target as HTMLFormElement);
    const answers = Object.fromEntries(questions.map((one) => [one.name, String(form.get(one.name) ?? "")]));
    act(put<Catalogue>(path, { answers }));
  };
  const found = (question: Question) => record?.findings.filter((one) => one.question === question.name) ?? [];
  return (
    <form class="questionnaire" onSubmit={save}>
      {record && <p>State: {record.state}. Written by {name(record.owner)}, {time(record.changed)}.</p>}
      {questions.map((one) => (
        <p key={one.name}>
          <label>
            {one.text}{one.required ? "" : " (optional)"}
            <Field question={one} value={record?.answers[one.name] ?? ""} />
          </label>
          {one.hint !== "" && <small>{one.hint}</small>}
          {found(one).map((finding) => <strong key={finding.text} class={finding.is_error ? "bad" : "part"}>{finding.text}</strong>)}
        </p>
      ))}
      <p class="bar">
        <button type="submit">Save</button>
        {record && <button type="button" onClick={() => act(post<Catalogue>(`${path}/confirm`, {}))}>Confirm as it stands</button>}
        <button type="button" onClick={() => print()}>Print</button>
      </p>
    </form>
  );
}

function Field({ question, value }: { question: Question; value: string }) {
  const { name: field, kind, unit, choices } = question;
  if (kind === "yes_no" || kind === "choice") {
    const words = kind === "yes_no" ? ["yes", "no"] : choices;
    return (
      <select name={field} defaultValue={value}>
        <option value="" selected={value === ""}>no answer</option>
        {words.map((word) => <option key={word} value={word} selected={word === value}>{word}</option>)}
      </select>
    );
  }
  const mode = kind === "text" ? "text" : "decimal";
  return <span><input name={field} defaultValue={value} inputMode={mode} maxLength={1000} /> {unit}</span>;
}

function RoundForm({ act }: { act: (request: Promise<Catalogue>) => void }) {
  const begin = (event: Event) => {
    event.preventDefault();
    const form = new FormData(event.target as HTMLFormElement);
    const notify = String(form.get("notify") ?? "").trim();
    const deadline = String(form.get("deadline") ?? "");
    act(post<Catalogue>("/api/v1/plan/round", notify === "" ? { deadline } : { deadline, notify }));
  };
  return (
    <form class="bar" onSubmit={begin}>
      <label>Deadline <input name="deadline" type="date" required /></label>
      <label>Post reminders to <input name="notify" type="url" placeholder="https://…" /></label>
      <button type="submit">Begin a confirmation round</button>
    </form>
  );
}
