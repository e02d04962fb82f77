// The official Node client as a program: a call as JSON on standard input, what came of it as JSON on standard output.
import { createRequire } from "node:module";
import { text } from "node:stream/consumers";

const call = JSON.parse(await text(process.stdin));
const { default: OpenAI } = createRequire(`${call.packages}/`)("openai");
const client = new OpenAI({ baseURL: call.url, apiKey: call.key, maxRetries: call.retries, timeout: 20_000 });

const kinds = {
  chat: () => client.chat.completions.create(call.body),
  completion: () => client.completions.create(call.body),
  helper: () => client.chat.completions.stream(call.body).finalChatCompletion(),
  models: async () => ({ data: (await client.models.list()).data }),
  model: () => client.models.retrieve(call.body.model),
};

const outcome = { body: null, chunks: [], error: null };
try {
  const answer = await kinds[call.kind]();
  if (answer?.[Symbol.asyncIterator]) {
    for await (const chunk of answer) outcome.chunks.push(chunk);
  } else {
    outcome.body = answer;
  }
} catch (error) {
  const { status = null, code = null, param = null, message } = error;
  outcome.error = { kind: error.constructor.name, status, code, param, message };
}
process.stdout.write(JSON.stringify(outcome));
