import { useEffect, useRef, useState } from "preact/hooks";

import { post, type Problem } from "../api";
import { Trouble } from "../parts";
import { bytes, count, duration, name, percent, rate } from "../format";
import { escaped, linkOf, makeFolders, put, type Upload } from "../uploads";

/** The number of files that are sent at once: one connection cannot use the whole rate of a long path. */
const AT_ONCE = 4;

interface Failed {
  path: string;
  why: string;
}

/** Uploads files of this computer to a folder, directly to its node, and shows the progress. */
export function Uploads({ at, wanted, onEnd }: { at: string; wanted: Upload[]; onEnd: () => void }) {
  const [sent, setSent] = useState<Map<string, number>>(new Map());
  const [failed, setFailed] = useState<Failed[]>([]);
  const [problem, setProblem] = useState<Problem>();
  const [isOver, setOver] = useState(false);
  const begun = useRef(Date.now());
  const all = wanted.reduce((sum, { file }) => sum + file.size, 0);
  useEffect(() => {
    const sendAll = async () => {
      await makeFolders(at, wanted);
      const waiting = [...wanted];
      const sendNext = async (): Promise<void> => {
        const one = waiting.shift();
        if (!one) return;
        try {
          const target = at + escaped(one.path);
          const link = linkOf(() => post<{ url: string }>("/api/v1/uploads", { at: target }));
          await put(link, target, one.file, (count) => setSent((before) => new Map(before).set(one.path, count)));
          setSent((before) => new Map(before).set(one.path, one.file.size));
        } catch (why) {
          setFailed((before) => [...before, { path: one.path, why: (why as Problem).message }]);
        }
        return sendNext();
      };
      await Promise.all(Array.from({ length: AT_ONCE }, sendNext));
    };
    sendAll().catch((why: Problem) => setProblem(why)).finally(() => setOver(true));
  }, [wanted]);
  const done = [...sent.values()].reduce((sum, count) => sum + count, 0);
  const speed = (done * 8000) / Math.max(1, Date.now() - begun.current);
  const part = isOver && failed.length === 0 ? 100 : percent(done, all);
  return (
    <section aria-label="Upload" class="holding">
      <progress class="large" max={100} value={part} aria-label={`${part} percent of the upload`} />
      <p>
        {bytes(done)} of {bytes(all)} in {count(wanted.length)} files
        {!isOver && done > 0 && `, ${rate(speed)}, about ${duration(((all - done) * 8) / Math.max(1, speed))} left`}
        {isOver && failed.length === 0 && !problem && ": all files have arrived"}
      </p>
      <Trouble problem={problem} />
      {failed.length > 0 && <ul aria-label="Not uploaded">{failed.map((one) => <li key={one.path}><strong>{name(one.path)}</strong>: {name(one.why)}</li>)}</ul>}
      {isOver && <button type="button" onClick={onEnd}>Close</button>}
    </section>
  );
}
