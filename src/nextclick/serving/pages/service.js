// Talks to the service that this page comes from.

export class Refused extends Error {
  constructor(status, problem) {
    super(problem.message);
    this.status = status;
    this.code = problem.code;
  }
}

export function setKey(key) {
  sessionStorage.setItem("key", key);
}

export async function send(method, path, body) {
  const headers = {};
  const key = sessionStorage.getItem("key");
  if (key) headers.authorization = `Bearer ${key}`;
  if (body !== undefined) headers["content-type"] = "application/json";
  try {
    return await fetch(path, { method, headers, body, cache: "no-store" });
  } catch {
    throw new Error("The service does not answer; this page goes on asking.");
  }
}

export async function ask(method, path, body) {
  const answer = await send(method, path, body === undefined ? undefined : JSON.stringify(body));
  const told = await answer.json();
  if (!answer.ok) throw new Refused(answer.status, told.error);
  return told;
}
