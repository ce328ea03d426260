import { Type } from "@sinclair/typebox";
import { pattern } from "../schema/patterns.ts";
import { commandWords, rules } from "../schema/schema.ts";

/** What a workload has to tell its running program of a claim. */
export const claimHookSchema = Type.Object(
  {
    exec: Type.Optional(
      Type.Object(
        { command: commandWords("Command that runs in the workload's container as its user.") },
        { description: "A command that has to exit with 0. The claim is at its standard input, in JSON." },
      ),
    ),
    httpPost: Type.Optional(
      Type.Object(
        {
          path: Type.String({ description: "Path of the request.", pattern: pattern.urlPath, maxLength: 1024 }),
          port: Type.Optional(
            Type.Integer({
              description: "Port of the request; the endpoint's port when absent.",
              minimum: 1,
              maximum: 65535,
            }),
          ),
        },
        { description: "A POST request that has to be answered with 200 to 299. Its body is the claim, in JSON." },
      ),
    ),
    timeoutSeconds: Type.Optional(
      Type.Integer({
        description: "Seconds until the call is ended and has failed.",
        minimum: 1,
        maximum: 60,
        default: 10,
      }),
    ),
  },
  {
    description:
      "How a program that runs already is told of a claim, and of what the claim brings, which is in /run/tenancy/claim. A failed call is made again; the claim is Active when one has succeeded.",
    ...rules({ rule: "has(self.exec) != has(self.httpPost)", message: "must have one of exec and httpPost" }),
  },
);
