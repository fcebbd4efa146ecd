/** Data that is requested repeatedly while a page is open. */

import { useEffect, useState } from "preact/hooks";

import { Problem } from "./api";

export interface Live<T> {
  value?: T;
  problem?: Problem;
  /** Requests it now. */
  refresh: () => void;
}

/** Requests a value, and again every `everyS` seconds as long as the page is visible. After a refusal, the last value is kept beside it. */
export function useLive<T>(request: () => Promise<T>, everyS: number, key: string): Live<T> {
  const [known, setKnown] = useState<{ key: string; value?: T; problem?: Problem }>({ key });
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    let isOver = false;
    let timer = 0;
    const load = async () => {
      if (!document.hidden) {
        try {
          const value = await request();
          if (!isOver) setKnown({ key, value });
        } catch (problem) {
          if (!isOver) setKnown((before) => ({ key, value: before.key === key ? before.value : undefined, problem: problem as Problem }));
        }
      }
      if (!isOver) timer = window.setTimeout(load, everyS * 1000);
    };
    void load();
    return () => {
      isOver = true;
      clearTimeout(timer);
    };
  }, [key, turn]);
  const { value, problem } = known.key === key ? known : {};
  return { value, problem, refresh: () => setTurn(turn + 1) };
}

/** Runs actions of the reader; the refusal of the last one is kept until the next one. */
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
