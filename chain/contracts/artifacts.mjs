// Compiles the contracts and writes artifacts/: what the Go program embeds. The bytes depend on sources, compiler and
// the settings in foundry.toml alone.
//
//   node artifacts.mjs           write
//   node artifacts.mjs --check   compare with what is there, and with what forge made if it has run
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const solc = createRequire(import.meta.url)("solc");
const here = dirname(fileURLToPath(import.meta.url));
const contracts = {
  Escrow: "src/escrow/Escrow.sol",
  IdentityRegistry: "src/IdentityRegistry.sol",
  ReputationRegistry: "src/ReputationRegistry.sol",
  SidequestAccount: "src/SidequestAccount.sol",
  TestUSD: "src/TestUSD.sol",
};

// One source for the settings: the file that forge reads.
function settings() {
  const toml = readFileSync(join(here, "foundry.toml"), "utf8");
  const value = (key) => {
    const line = toml.match(new RegExp(`^${key} = "?([^"\\n]*)"?$`, "m"));
    if (!line) throw new Error(`foundry.toml does not set ${key}`);
    return line[1];
  };
  return {
    optimizer: { enabled: value("optimizer") === "true", runs: Number(value("optimizer_runs")) },
    evmVersion: value("evm_version"),
    metadata: { bytecodeHash: value("bytecode_hash"), appendCBOR: value("cbor_metadata") === "true" },
  };
}

function compile() {
  const sources = {};
  for (const file of Object.values(contracts)) sources[file] = { content: readFileSync(join(here, file), "utf8") };
  const outputSelection = {
    "*": { "*": ["abi", "evm.bytecode.object", "evm.deployedBytecode.object", "evm.deployedBytecode.immutableReferences"] },
  };
  const input = { language: "Solidity", sources, settings: { ...settings(), outputSelection } };
  const open = (name) => {
    const file = join(here, name.startsWith("@openzeppelin/") ? join("node_modules", name) : name);
    return existsSync(file) ? { contents: readFileSync(file, "utf8") } : { error: `no file ${name}` };
  };
  const output = JSON.parse(solc.compile(JSON.stringify(input), { import: open }));
  const faults = (output.errors ?? []).filter((e) => e.severity === "error");
  if (faults.length > 0) throw new Error(faults.map((e) => e.formattedMessage).join("\n"));
  return output.contracts;
}

// What all sources hash to, by which a Go test notices, without a compiler, that they are newer than the artifacts.
function sourcesHash() {
  const hash = createHash("sha256");
  const files = readdirSync(join(here, "src"), { recursive: true }).filter((file) => file.endsWith(".sol"));
  for (const file of files.sort()) {
    const text = readFileSync(join(here, "src", file));
    hash.update(`${file.replaceAll("\\", "/")} ${text.length}\n`).update(text);
  }
  return hash.digest("hex");
}

// Where the constructor writes into the code, as offsets and lengths in bytes.
function immutables(code) {
  return Object.values(code.evm.deployedBytecode.immutableReferences)
    .flat()
    .sort((a, b) => a.start - b.start);
}

function artifact(name, code) {
  return {
    contract: name,
    solc: solc.version(),
    settings: settings(),
    sources: sourcesHash(),
    abi: code.abi,
    bytecode: "0x" + code.evm.bytecode.object,
    deployedBytecode: "0x" + code.evm.deployedBytecode.object,
    immutables: immutables(code),
  };
}

// What differs from a file, in a few words; "" if nothing does.
function difference(name, made) {
  const file = join(here, "artifacts", `${name}.json`);
  if (!existsSync(file)) return "is missing";
  if (readFileSync(file, "utf8") !== JSON.stringify(made, null, 1) + "\n") return "is not what the sources make";
  const forged = join(here, "out", `${name}.sol`, `${name}.json`);
  if (!existsSync(forged)) return "";
  return JSON.parse(readFileSync(forged, "utf8")).bytecode.object === made.bytecode ? "" : "is not what forge makes";
}

const check = process.argv.includes("--check");
const output = compile();
let wrong = 0;
mkdirSync(join(here, "artifacts"), { recursive: true });
for (const [name, file] of Object.entries(contracts)) {
  const made = artifact(name, output[file][name]);
  if (!check) {
    writeFileSync(join(here, "artifacts", `${name}.json`), JSON.stringify(made, null, 1) + "\n");
    continue;
  }
  const says = difference(name, made);
  if (says) {
    console.error(`artifacts/${name}.json ${says}; write it anew with: node chain/contracts/artifacts.mjs`);
    wrong++;
  }
}
if (check && wrong === 0) console.log("artifacts: the same bytes again");
process.exit(wrong ? 1 : 0);
