/* server: a running `ffwd serve`, for tests. */
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";

/* {url, stop(), becomesIdle(seconds)} once the server listens. */
export async function startServer() {
  const child = spawn(process.env.FFWD, ["serve", "-m", process.env.SMOLLM2, "--port", "0", "--ctx", "1024"],
    { stdio: ["ignore", "ignore", "pipe"] });
  const ended = new Promise((done) => child.on("exit", done));
  const url = await new Promise((found, failed) => {
    createInterface({ input: child.stderr }).on("line", (line) => {
      const at = /listening on (http:\S+)/.exec(line);
      if (at) found(at[1]);
    });
    ended.then((status) => failed(new Error(`the server ended with ${status}`)));
  });

  async function becomesIdle(seconds) {
    for (const until = Date.now() + seconds * 1000; Date.now() < until; await sleep(20)) {
      const health = await (await fetch(`${url}/health`)).json();
      if (health.running === 0 && health.waiting === 0) return true;
    }
    return false;
  }

  function stop() {
    child.kill("SIGTERM");
    return ended;
  }

  return { url, stop, becomesIdle };
}
