// An OpenID Connect provider for tests: says on stdout where it listens, and on stdin is told where its client returns to.
//
// The environment: CERTIFICATE (a file with the certificate and its key, PEM). Whoever signs in is who he says; `ops` is a group of those whose name begins so.

import { createServer } from "node:https";
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import Provider from "oidc-provider";

const pem = readFileSync(process.env.CERTIFICATE);
let answer = (_request, response) => response.writeHead(503).end();
const server = createServer({ cert: pem, key: pem }, (request, response) => answer(request, response));
server.listen(0, "127.0.0.1", () => console.log(`listening on https://127.0.0.1:${server.address().port}`));

for await (const redirect of createInterface({ input: process.stdin })) {
  const provider = new Provider(`https://127.0.0.1:${server.address().port}`, {
    clients: [{ client_id: "hub", client_secret: "a secret: with marks", redirect_uris: [redirect], response_types: ["code"], grant_types: ["authorization_code"] }],
    pkce: { required: () => true },
    claims: { openid: ["sub"], profile: ["preferred_username", "groups"] },
    conformIdTokenClaims: false,
    cookies: { keys: ["tests"] },
    findAccount: (_, id) => ({
      accountId: id,
      claims: () => ({ sub: `id-of-${id}`, preferred_username: id, groups: id.startsWith("ops") ? ["all", "ops"] : ["all"] }),
    }),
  });
  answer = provider.callback();
  console.log("ready");
}
