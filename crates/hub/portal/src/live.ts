/** Data that is asked for again while a page is open. */

import { useEffect, useState } from "preact/hooks";

import { Problem } from "./api";

export interface Live<T> {
  value?: T;
  problem?: Problem;
  /** Asks now. */
  again: () => void;
}

/** Asks, and asks again every so many seconds as long as the page is seen. A refusal is shown beside what was known before. */
export function useLive<T>(ask: () => Promise<T>, everyS: number, key: string): Live<T> {
  const [known, setKnown] = useState<{ key: string; value?: T; problem?: Problem }>({ key });
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    let isOver = false;
    let timer = 0;
    const look = async () => {
      if (!document.hidden) {
        try {
          const value = await ask();
          if (!isOver) setKnown({ key, value });
        } catch (problem) {
          if (!isOver) setKnown((before) => ({ key, value: before.key === key ? before.value : undefined, problem: problem as Problem }));
        }
      }
      if (!isOver) timer = window.setTimeout(look, everyS * 1000);
    };
    void look();
    return () => {
      isOver = true;
      clearTimeout(timer);
    };
  }, [key, turn]);
  const { value, problem } = known.key === key ? known : {};
  return { value, problem, again: () => setTurn(turn + 1) };
}

/** Something that a reader has done: what the hub refuses of it is told until the next one. */
export function useAction(): { problem?: Problem; act: (what: () => Promise<unknown>) => Promise<void> } {
  const [problem, setProblem] = useState<Problem>();
  const act = async (what: () => Promise<unknown>) => {
    setProblem(undefined);
    try {
      await what();
    } catch (refused) {
      setProblem(refused as Problem);
    }
  };
  return { problem, act };
}
