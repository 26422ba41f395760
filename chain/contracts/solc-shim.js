#!/usr/bin/env node
// Answers forge as the native compiler would, with the compiler from npm, which needs
// no download beside the package and is the same everywhere.
const solc = require("solc");

const args = process.argv.slice(2);
if (args.includes("--version")) {
  // forge reads the version from the form that the native program prints.
  const version = solc.version().replace("Emscripten.clang", "Linux.g++");
  console.log(`solc, the solidity compiler commandline interface\nVersion: ${version}`);
} else {
  const chunks = [];
  process.stdin.on("data", (chunk) => chunks.push(chunk));
  process.stdin.on("end", () => process.stdout.write(solc.compile(Buffer.concat(chunks).toString("utf8"))));
}
