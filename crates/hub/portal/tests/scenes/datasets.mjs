import assert from "node:assert/strict";

import { HUB, isAccessible, KEY, reader, signIn } from "../reader.mjs";

/** A user finds a dataset, sees where it is, and has a second copy made. */
export async function datasets() {
  const { context, page, pageErrors } = await reader();
  await page.goto(`${HUB}/data`);
  await signIn(page, KEY);
  await page.getByText("Nothing is in the catalogue yet").waitFor();
  const send = (method, path, body) =>
    page.evaluate(
      async ([method, path, body]) => {
        const headers = { "Content-Type": "application/json" };
        const answer = await fetch(path, { method, headers, body: JSON.stringify(body) });
        if (!answer.ok) throw new Error(await answer.text());
      },
      [method, path, body],
    );
  await send("PUT", "/api/v1/scopes/s", {});
  await send("POST", "/api/v1/data", { data: [{ name: "s:run/7", kind: "dataset" }] });
  const replicas = [{ endpoint: "one" }];
  await send("POST", "/api/v1/data", { data: [{ name: "s:f0", bytes: 100_000, replicas }], into: "s:run/7" });
  await page.reload();
  await page.getByRole("link", { name: "s", exact: true }).click();
  await page.getByLabel("Name (* matches any text)").fill("run*");
  await page.getByRole("button", { name: "Find" }).click();
  await page.getByRole("link", { name: "s:run/7" }).click();
  await page.getByRole("heading", { name: "s:run/7" }).waitFor();
  await page.getByText("100 kB in 1 files").waitFor();
  await isAccessible(page, "a dataset");
  await page.getByRole("textbox", { name: "where" }).fill("nowhere");
  await page.getByRole("button", { name: "Make the rule" }).click();
  await page.getByText("cannot be placed").waitFor();
  // A refusal because of a full quota names the quota.
  await send("PUT", "/api/v1/quotas/ann", { quotas: [{ expression: "two", bytes: 10 }] });
  await page.getByRole("textbox", { name: "where" }).fill("two");
  await page.getByRole("button", { name: "Make the rule" }).click();
  await page.getByText(/quota/).waitFor();
  await send("PUT", "/api/v1/quotas/ann", { quotas: [] });
  await page.getByRole("button", { name: "Make the rule" }).click();
  await page.getByText("(ok)").waitFor();
  await page.getByRole("row", { name: /^two 1 files/ }).waitFor();
  await page.goto(`${HUB}/watch`);
  await page.getByText("This hub watches no paths").waitFor();
  assert.deepEqual(pageErrors, []);
  await context.close();
}
