#!/usr/bin/env node
// Runs the Caddy of this platform's package, with these arguments. Without any, it serves the API
// and its page on localhost, with the user's Codex login.
"use strict";
const { spawn, spawnSync } = require("node:child_process");
const net = require("node:net");
const path = require("node:path");

const windows = process.platform === "win32";

function fail(message) {
  console.error(`caddy-codex: ${message}`);
  process.exit(1);
}

function findProgram() {
  const name = `caddy-codex-${process.platform}-${process.arch}`;
  try {
    return require.resolve(`${name}/${windows ? "caddy.exe" : "caddy"}`);
  } catch {
    fail(`the package ${name} is missing. Install caddy-codex again, with optional dependencies (npm install --include=optional). There are packages for Linux, macOS and Windows, x64 and arm64.`);
  }
}

// codex reports whether Codex runs with these arguments without an error. On Windows it is a script.
function codex(...args) {
  return spawnSync(["codex", ...args].join(" "), { shell: true, stdio: "ignore" }).status === 0;
}

// checkPort fails if a program has the port: another Caddy would share it.
function checkPort(port) {
  return new Promise((resolve) => {
    const server = net.createServer();
    server.on("error", (error) => fail(`port ${port} cannot be used (${error.code}). Set PORT to another one.`));
    server.listen(port, "127.0.0.1", () => server.close(resolve));
  });
}

async function defaultArguments() {
  const port = process.env.PORT || "8080";
  if (!/^[0-9]{1,5}$/.test(port) || port < 1 || port > 65535) {
    fail(`PORT is ${JSON.stringify(port)}: it has to be a number from 1 to 65535.`);
  }
  if (!codex("--version")) {
    fail("there is no codex on the PATH. Install it and log in:\n\n  npm install -g @openai/codex@0.171.0\n  codex login\n");
  }
  await checkPort(Number(port));
  if (!codex("login", "status")) {
    console.error("caddy-codex: Codex is not logged in. Run `codex login`; a restart of this program is not needed.");
  }
  console.error(`
  page     http://localhost:${port}/codex/
  the API  http://localhost:${port}/v1

Ctrl-C ends it.
`);
  return ["run", "--adapter", "caddyfile", "--config", path.join(__dirname, "Caddyfile")];
}

// run runs the program, and ends as it ends. The program gets each signal once, though a terminal
// sends Ctrl-C to all its processes, and npx passes it on: Caddy would not wait for running
// turns at the second. So it has a process group of its own, and what follows at once is dropped.
function run(program, args) {
  const child = spawn(program, args, { stdio: "inherit", detached: !windows });
  let last = 0;
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) {
    process.on(signal, () => {
      const repeated = Date.now() - last < 500;
      last = Date.now();
      // On Windows the console tells the program itself. Caddy ignores SIGHUP.
      if (!windows && !repeated) child.kill(signal === "SIGHUP" ? "SIGTERM" : signal);
    });
  }
  child.on("error", (error) => fail(`${program} does not start: ${error.message}`));
  child.on("exit", (code, signal) => {
    if (signal) {
      process.removeAllListeners(signal);
      process.kill(process.pid, signal);
    } else {
      process.exit(code);
    }
  });
}

async function main() {
  const program = findProgram();
  const args = process.argv.slice(2);
  run(program, args.length > 0 ? args : await defaultArguments());
}

main();
