// Shows what docs/dev/upstream.md says of `codex app-server`, with a provider of its own on this machine: no
// login, no network, no package. It needs Node 20 and, for the numbers of a process, Linux.
//
//     node upstream.mjs CODEX CASE      CODEX is the program, such as `codex`; without CASE, all cases run

import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import http from "node:http";
import { homedir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { crc32, deflateSync } from "node:zlib";

const [program = "codex", only] = process.argv.slice(2);
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// provider answers each POST with the events that script yields, and keeps the bodies.
async function provider(script, headers = {}) {
  const bodies = [];
  const server = http.createServer(async (req, res) => {
    let body = "";
    for await (const part of req) body += part;
    if (req.method !== "POST") return res.writeHead(404).end();
    bodies.push(JSON.parse(body));
    res.writeHead(200, { "Content-Type": "text/event-stream", ...headers });
    for (const event of script(bodies.length)) {
      await pause(event ? 0 : 500);
      if (!event) return res.destroy(); // the response breaks off
      const lines = `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`;
      for (let i = 0; i < lines.length; i += 4096) {
        res.write(lines.slice(i, i + 4096));
        await new Promise((resolve) => setImmediate(resolve));
      }
    }
    res.end();
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { bodies, server, url: `http://127.0.0.1:${server.address().port}/v1`, close: () => server.close() };
}

// webSockets lets a provider answer WebSockets: each message of the client with the events that script yields.
function webSockets(server, script) {
  const frame = (text) => {
    const data = Buffer.from(text);
    const head = data.length < 126 ? [0x81, data.length] : [0x81, 126, data.length >> 8, data.length & 255];
    return Buffer.concat([Buffer.from(head), data]);
  };
  server.on("upgrade", (req, socket) => {
    const key = req.headers["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
    const accept = createHash("sha1").update(key).digest("base64");
    socket.write("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
      `Sec-WebSocket-Accept: ${accept}\r\n\r\n`);
    let data = Buffer.alloc(0);
    socket.on("error", () => {}).on("data", (part) => {
      data = Buffer.concat([data, part]);
      for (;;) {
        if (data.length < 14) return;
        const short = data[1] & 127;
        const at = { 126: 4, 127: 10 }[short] ?? 2;
        const length = at === 2 ? short : at === 4 ? data.readUInt16BE(2) : Number(data.readBigUInt64BE(2));
        if (data.length < at + 4 + length) return;
        const mask = data.subarray(at, at + 4);
        const text = Buffer.from(data.subarray(at + 4, at + 4 + length).map((b, i) => b ^ mask[i % 4])).toString();
        const isText = (data[0] & 15) === 1;
        data = data.subarray(at + 4 + length);
        if (!isText) continue;
        for (const event of script(JSON.parse(text))) {
          if (!event) return socket.end(); // the response breaks off
          socket.write(frame(JSON.stringify(event)));
        }
      }
    });
  });
}

// The events of answers.
const created = { type: "response.created", response: { id: "r1" } };
const completed = {
  type: "response.completed",
  response: { id: "r1", usage: { input_tokens: 1, output_tokens: 1, total_tokens: 2 } },
};
const item = (type, item) => ({ type: `response.output_item.${type}`, output_index: 0, item });
const message = (text, id = "m1") => ({
  type: "message", role: "assistant", id, content: text ? [{ type: "output_text", text }] : [],
});
const delta = (of) => ({ type: "response.output_text.delta", item_id: "m1", output_index: 0, content_index: 0, ...of });
const call = (text) => ({ type: "function_call", id: "f1", call_id: "c1", name: "note", arguments: text });
function* text(size = 4) {
  yield created;
  yield item("added", message(""));
  yield delta({ delta: "y".repeat(size) });
  yield item("done", message("y".repeat(size)));
  yield completed;
}

// AppServer is a codex app-server whose only provider is at url.
class AppServer {
  constructor(url, settings = "", more = "") {
    this.home = mkdtempSync(join(homedir(), ".upstream-"));
    writeFileSync(join(this.home, "config.toml"), `model = "gpt-5"
model_provider = "scripted"
${settings}
[analytics]
enabled = false
[model_providers.scripted]
name = "scripted"
base_url = "${url}"
wire_api = "responses"
${more || "request_max_retries = 0\nstream_max_retries = 0"}
`);
    process.once("exit", () => rmSync(this.home, { recursive: true, force: true }));
    const env = { PATH: process.env.PATH, CODEX_HOME: this.home };
    this.process = spawn(program, ["app-server"], { env, stdio: ["pipe", "pipe", "ignore"] });
    this.process.on("error", (error) => {
      console.error(`cannot start Codex: ${error.message}`);
      process.exit(1);
    });
    this.process.stdin.on("error", () => {}); // it has ended
    this.answers = new Map();
    this.notes = [];
    this.wanted = [];
    this.id = 0;
    createInterface({ input: this.process.stdout }).on("line", (line) => this.read(JSON.parse(line)));
  }
  read(message) {
    if (!message.method) return this.answers.get(message.id)?.(message);
    this.notes.push(message);
    this.wanted = this.wanted.filter(({ method, resolve }) => method !== message.method || resolve(message));
  }
  send(message) {
    this.process.stdin.write(JSON.stringify(message) + "\n");
  }
  call(method, params, id = ++this.id) {
    const answer = new Promise((resolve) => this.answers.set(id, resolve));
    this.send({ id, method, params });
    return answer;
  }
  next(method) {
    return new Promise((resolve) => this.wanted.push({ method, resolve }));
  }
  // start shakes hands and, if params are given, starts a thread with them.
  async start(params) {
    const { result } = await this.call("initialize", {
      clientInfo: { name: "upstream", title: "upstream", version: "1" },
      capabilities: { experimentalApi: true },
    });
    this.version = result.userAgent.split(" ")[0].split("/")[1];
    this.send({ method: "initialized" });
    return params && this.thread(params);
  }
  thread(params) {
    const own = ["shell_tool", "unified_exec", "multi_agent", "goals", "apps", "plugins", "view_image",
      "image_generation"];
    const config = { features: Object.fromEntries(own.map((name) => [name, false])), web_search: "disabled" };
    return this.call("thread/start", {
      ephemeral: true, model: "gpt-5", cwd: this.home, environments: [], sandbox: "read-only", approvalPolicy: "never",
      experimentalRawEvents: true, baseInstructions: "Be brief.", config, ...params,
    });
  }
  async turn(threadId, input = [{ type: "text", text: "hello", text_elements: [] }]) {
    const end = this.next("turn/completed");
    const { error } = await this.call("turn/start", { threadId, input });
    return error ? { error } : (await end).params.turn;
  }
  // cpu returns the seconds of CPU, memory the megabytes of a field of /proc/PID/status.
  cpu() {
    const fields = readFileSync(`/proc/${this.process.pid}/stat`, "utf8").split(") ")[1].split(" ");
    return (Number(fields[11]) + Number(fields[12])) / 100;
  }
  memory(field = "VmRSS") {
    const status = readFileSync(`/proc/${this.process.pid}/status`, "utf8");
    return Math.round(Number(status.match(`${field}:\\s*(\\d+)`)[1]) / 1024);
  }
  async stop() {
    const ended = new Promise((resolve) => this.process.once("exit", resolve));
    if (this.process.kill()) await ended;
    rmSync(this.home, { recursive: true, force: true, maxRetries: 5 });
  }
}

const tool = (name, properties = {}) => ({
  type: "function", name, description: "A tool.", inputSchema: { type: "object", properties },
});
const ok = { contentItems: [{ type: "inputText", text: "ok" }], success: true };

// Each case prints what it sees.
const cases = {
  // CPU time of an answer whose text comes as one event, in pieces of 4 KiB as from a network.
  async event(print) {
    for (const mib of [1, 2, 4]) {
      const p = await provider(() => text(mib << 20));
      const s = new AppServer(p.url);
      const { result } = await s.start({});
      const before = s.cpu();
      await s.turn(result.thread.id);
      print(`${mib} MiB: ${(s.cpu() - before).toFixed(2)} s of CPU`);
      await s.stop(), p.close();
    }
  },

  // What account/rateLimits/updated says if an answer has the headers of two limits.
  async limits(print) {
    const p = await provider(() => text(), {
      "x-codex-active-limit": "premium",
      "x-codex-primary-used-percent": "76",
      "x-codex-primary-window-minutes": "300",
      "x-codex-primary-reset-at": "1893456000",
      "x-codex-bengalfox-primary-used-percent": "5",
      "x-codex-bengalfox-primary-window-minutes": "300",
      "x-codex-bengalfox-primary-reset-at": "1893456000",
      "x-codex-bengalfox-limit-name": "GPT-5.3-Codex-Spark",
    });
    const s = new AppServer(p.url);
    const { result } = await s.start({});
    await s.turn(result.thread.id);
    await pause(300);
    for (const { params } of s.notes.filter((n) => n.method === "account/rateLimits/updated")) {
      print(`${params.rateLimits.limitId}: ${JSON.stringify(params.rateLimits.primary)}`);
    }
    await s.stop(), p.close();
  },

  // Which notifications come while the model writes the arguments of a call in ten fragments.
  async arguments(print) {
    const whole = JSON.stringify({ text: "x".repeat(80) });
    const p = await provider(function* (k) {
      if (k > 1) return yield* text();
      yield created;
      yield item("added", call(""));
      const of = { item_id: "f1", output_index: 0 };
      for (let i = 0; i < whole.length; i += 9) {
        yield { type: "response.function_call_arguments.delta", ...of, delta: whole.slice(i, i + 9) };
      }
      yield { type: "response.function_call_arguments.done", ...of, arguments: whole };
      yield item("done", call(whole));
      yield completed;
    });
    const s = new AppServer(p.url);
    const { result } = await s.start({ dynamicTools: [tool("note", { text: { type: "string" } })] });
    const asked = s.next("item/tool/call").then(({ id }) => s.send({ id, result: ok }));
    await s.turn(result.thread.id);
    await asked;
    const seen = s.notes.filter((n) => JSON.stringify(n.params).includes("xxx"));
    print(seen.map((n) => `${n.method} (${n.params.item?.type ?? ""})`).join(", "));
    await s.stop(), p.close();
  },

  // What Codex says if a response breaks off after a call.
  async broken(print) {
    const p = await provider(function* () {
      yield created;
      yield item("added", call(""));
      yield item("done", call("{}"));
      yield null;
    });
    const s = new AppServer(p.url);
    const { result } = await s.start({ dynamicTools: [tool("note")] });
    const ask = s.next("item/tool/call");
    const turn = s.turn(result.thread.id);
    const { id } = await ask;
    const seen = s.notes.length;
    await pause(10000);
    print(`in 10 s after the break: ${s.notes.length - seen} notifications`);
    s.send({ id, result: { contentItems: [], success: true } });
    const { status, error } = await turn;
    print(`after the result of the call: ${status}, ${error?.message}`);
    await s.stop(), p.close();
  },

  // What is told of a response over a WebSocket that breaks off and is asked for again.
  async retry(print) {
    let asked = 0;
    const script = function* (request) {
      if (request?.generate === false) return yield* [created, completed];
      asked++;
      if (asked > 1) return yield* text();
      yield created;
      yield item("added", message("", "m0"));
      yield delta({ item_id: "m0", delta: "half an answer" });
      yield null;
    };
    const p = await provider(() => script());
    webSockets(p.server, script);
    const s = new AppServer(p.url, "", "supports_websockets = true\nstream_max_retries = 2");
    const { result } = await s.start({});
    const { status } = await s.turn(result.thread.id);
    const told = s.notes.filter((n) => ["error", "item/agentMessage/delta"].includes(n.method));
    print(`${status}, the model was asked ${asked} times; notifications: ` +
      told.map((n) => `${n.method} ${n.params.delta ?? n.params.error.message}`).join(", "));
    await s.stop(), p.close();
  },

  // Which calls are answered, by how deep they are nested.
  async depth(print) {
    const s = new AppServer("http://127.0.0.1:9/v1");
    await s.start();
    for (const depth of [126, 127, 128]) {
      const nested = "[".repeat(depth - 2) + "]".repeat(depth - 2);
      const answer = new Promise((resolve) => s.answers.set(depth, resolve));
      s.process.stdin.write(`{"id":${depth},"method":"model/list","params":{"x":${nested}}}\n`);
      const what = await Promise.race([answer.then(() => "answered"), pause(5000).then(() => "no answer in 5 s")]);
      print(`${depth} levels: ${what}`);
    }
    await s.stop();
  },

  // How many of 1,000 calls that are written at once get an answer.
  async flood(print) {
    const s = new AppServer("http://127.0.0.1:9/v1");
    await s.start();
    const counts = {};
    for (let i = 0; i < 1000; i++) {
      s.call("model/list", {}).then(({ error }) => {
        const what = error ? `${error.code} ${error.message}` : "answered";
        counts[what] = (counts[what] ?? 0) + 1;
      });
    }
    await pause(10000);
    const lost = 1000 - Object.values(counts).reduce((a, b) => a + b, 0);
    print(`${JSON.stringify(counts)}, no answer in 10 s: ${lost}`);
    await s.stop();
  },

  // What the model gets of a history and of tools.
  async history(print) {
    const p = await provider(() => text());
    const s = new AppServer(p.url);
    const properties = {
      n: { type: "integer", minimum: 1, default: 5 },
      s: { type: "string", pattern: "^a", format: "date" },
      ok: { const: true },
    };
    const dynamicTools = [tool("note", properties), tool("exec_command"), tool("apply_patch")];
    const { result } = await s.start({ dynamicTools });
    const injected = await s.call("thread/inject_items", { threadId: result.thread.id, items: [
      { type: "message", role: "system", content: [{ type: "input_text", text: "a system message" }] },
      { type: "message", role: "developer", content: [{ type: "input_text", text: "a developer message" }] },
      { type: "function_call_output", call_id: "c9", output: "an output without its call" },
      { type: "function_call", call_id: "c8", name: "note", arguments: "{}" },
    ] });
    print(`thread/inject_items: ${JSON.stringify(injected.error ?? injected.result)}`);
    await s.turn(result.thread.id);
    const { input, tools, parallel_tool_calls } = p.bodies.at(-1);
    const short = (i) => i.role ? `${i.role}: ${i.content[0].text.slice(0, 20)}` : `${i.type} ${i.output ?? ""}`;
    print(`input: ${input.map(short).join("; ")}`);
    print(`tools: ${tools.map((t) => t.name ?? t.type).join(", ")}; parallel_tool_calls: ${parallel_tool_calls}`);
    print(`properties of note: ${JSON.stringify(tools.find((t) => t.name === "note")?.parameters.properties)}`);
    await s.stop(), p.close();
  },

  // What remains of the description of a property, by the size of the schema.
  async schema(print) {
    for (const size of [4700, 5100]) {
      const p = await provider(() => text());
      const s = new AppServer(p.url);
      const properties = { text: { type: "string", description: "d".repeat(size) } };
      const { result } = await s.start({ dynamicTools: [tool("note", properties)] });
      await s.turn(result.thread.id);
      const { description } = p.bodies[0].tools.find((t) => t.name === "note").parameters.properties.text;
      print(`a description of ${size} bytes: ${description ? "kept" : "removed"}`);
      await s.stop(), p.close();
    }
  },

  // Resident memory after turns whose threads were unsubscribed.
  async threads(print) {
    for (const settings of ["", "thread_unload_delay_secs = 0"]) {
      const p = await provider(() => text());
      const s = new AppServer(p.url, settings);
      await s.start();
      for (let i = 0; i <= 300; i++) {
        const { result } = await s.thread({});
        await s.turn(result.thread.id);
        await s.call("thread/unsubscribe", { threadId: result.thread.id });
        if (i % 300 === 0) print(`${settings || "by default"}: ${s.memory()} MB after ${i + 1} turns`);
      }
      await s.stop(), p.close();
    }
  },

  // Peak memory for a PNG of some 500 KB whose colour profile unpacks to 512 MB.
  async profile(print) {
    const chunk = (type, data) => {
      const body = Buffer.concat([Buffer.from(type), data]);
      const out = Buffer.alloc(body.length + 8);
      out.writeUInt32BE(data.length), body.copy(out, 4), out.writeUInt32BE(crc32(body), body.length + 4);
      return out;
    };
    const png = (bytes) => Buffer.concat([
      Buffer.from("\x89PNG\r\n\x1a\n", "latin1"), chunk("IHDR", Buffer.from([0, 0, 0, 1, 0, 0, 0, 1, 8, 2, 0, 0, 0])),
      ...(bytes ? [chunk("iCCP", Buffer.concat([Buffer.from("p\0\0"), deflateSync(Buffer.alloc(bytes))]))] : []),
      chunk("IDAT", deflateSync(Buffer.alloc(4))), chunk("IEND", Buffer.alloc(0)),
    ]);
    for (const bytes of [0, 512 << 20]) {
      const image = png(bytes);
      const p = await provider(() => text());
      const s = new AppServer(p.url);
      const { result } = await s.start({});
      const url = `data:image/png;base64,${image.toString("base64")}`;
      const { status, error } = await s.turn(result.thread.id, [{ type: "image", url }]);
      print(`a PNG of ${image.length} bytes: peak ${s.memory("VmHWM")} MB; ${status} ${error?.message ?? ""}`);
      await s.stop(), p.close();
    }
  },

  // What is left of config.toml if one setting in it is wrong.
  async settings(print) {
    for (const settings of ["", 'model_auto_compact_token_limit = "many"']) {
      const s = new AppServer("http://127.0.0.1:9/v1", settings);
      await s.start();
      const { result } = await s.call("account/read", {});
      const thread = await s.thread({});
      const warning = s.notes.find((n) => n.method === "configWarning" && n.params.details?.includes("many"));
      print(`${settings || "all right"}: a login is ${result.requiresOpenaiAuth ? "" : "not "}required; ` +
        `warning: ${warning?.params.summary ?? "none"}; ` +
        `thread/start: ${thread.error?.message.replace(s.home, "") ?? thread.result.modelProvider}`);
      await s.stop();
    }
  },
};

if (only && !cases[only]) {
  console.error(`there is no case ${only}, but ${Object.keys(cases).join(", ")}`);
  process.exit(2);
}
for (const name of only ? [only] : Object.keys(cases)) {
  await cases[name]((line) => console.log(`${name}: ${line}`));
}
process.exit(0);
