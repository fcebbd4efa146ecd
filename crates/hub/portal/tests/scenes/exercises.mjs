import assert from "node:assert/strict";

import { HUB, isAccessible, KEY, reader, signIn } from "../reader.mjs";

const ID = "0190b5c8-0000-7000-8000-0000000000e1";

/** The state of a run with one flow that is behind its goal and one that is not. */
const REPORT = {
  title: "dc <b>27</b>",
  began: "2026-11-27T02:00:00Z",
  doing: "50 %",
  seconds: 90,
  flows: [
    { name: "50 %: geneva > perth, files", from: "geneva", to: "perth", goal_bit_s: 1e9, rate_bit_s: 4e8, is_active: true, why: "target: the disks write 400 Mbit/s" },
    { name: "50 %: geneva > leiden, files", from: "geneva", to: "leiden", goal_bit_s: 1e9, rate_bit_s: 1.1e9, is_active: true },
  ],
  missing: ["the clock of leiden is 7 s ahead of that of the controller"],
};

function report(page, progress) {
  const send = ({ id, body }) => fetch(`/api/v1/exercises/${id}`, { method: "PUT", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) }).then((answer) => answer.json());
  return page.evaluate(send, { id: ID, body: progress });
}

/** The board shows what flows achieve, their goals, who is behind and why; its button stops the run. */
export async function exercises() {
  const { context, page, pageErrors } = await reader();
  await page.goto(`${HUB}/exercises`);
  await signIn(page, KEY);
  await page.getByRole("heading", { name: "Exercises" }).waitFor();
  await page.getByText("No exercise was reported").waitFor();
  assert.deepEqual(await report(page, REPORT), {});
  await page.getByRole("heading", { name: "dc <b>27</b>" }).waitFor();
  await page.getByText("1.50 Gbit/s of 2.00 Gbit/s; 1 of 2 flows are behind").waitFor();
  await page.getByText("the clock of leiden").waitFor();
  const rows = await page.getByRole("table").getByRole("row").allTextContents();
  assert.match(rows[1], /perth.*400 Mbit\/s.*✗ 600 Mbit\/s.*the disks write/, "the flow that is furthest behind comes first");
  await isAccessible(page, "the board of exercises");
  await page.getByRole("button", { name: /^Stop dc/ }).click();
  await page.getByText(/^Stopped by /).waitFor();
  assert.ok((await report(page, REPORT)).stopped_by, "the controller is told with the answer to its next report");
  await report(page, { ...REPORT, flows: [], result: "stopped by a signal" });
  await page.getByText(/^stopped by a signal/).waitFor();
  assert.deepEqual(pageErrors, []);
  await context.close();
}
