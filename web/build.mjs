// Builds the page into api/dashboard: one script, one style sheet, its font, the licences of what is in it, and
// build.json, which says of which sources it was built (tests/unit/api/test_page_build.py reads it).
import { createHash } from "node:crypto";
import { cp, mkdir, readFile, readdir, rm, writeFile } from "node:fs/promises";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import * as esbuild from "esbuild";

const web = dirname(fileURLToPath(import.meta.url));
const out = process.env.PAGE_OUT ?? join(web, "..", "api", "dashboard");
const digest = (bytes) => createHash("sha256").update(bytes).digest("hex");

const settings = {
  absWorkingDir: web,
  entryPoints: { page: "src/main.tsx" },
  outdir: out,
  bundle: true,
  format: "esm",
  target: ["es2022", "chrome111", "firefox115", "safari16.4"],
  jsx: "automatic",
  jsxImportSource: "preact",
  assetNames: "[name]",
  loader: { ".woff2": "file" },
  minify: true,
  legalComments: "none", // third-party-licences.txt has them whole
  charset: "utf8",
  metafile: true,
  logLevel: "warning",
};

async function files(folder, but = []) {
  const found = await readdir(folder, { recursive: true, withFileTypes: true });
  return found
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .filter((path) => !but.some((left) => relative(folder, path).split("/")[0] === left))
    .sort();
}

async function sources() {
  const hash = createHash("sha256");
  for (const path of await files(web, ["node_modules"])) {
    hash.update(`${relative(web, path)}\0${digest(await readFile(path))}\n`);
  }
  return hash.digest("hex");
}

// Of every package that has a byte in the output, its name, version and licence as the package has it.
async function licences(metafile) {
  const used = new Set();
  for (const output of Object.values(metafile.outputs)) {
    for (const [input, { bytesInOutput }] of Object.entries(output.inputs)) {
      const name = /^node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(input)?.[1];
      if (name && bytesInOutput > 0) used.add(name);
    }
  }
  const parts = [];
  for (const name of [...used].sort()) {
    const folder = join(web, "node_modules", name);
    const { version, license } = JSON.parse(await readFile(join(folder, "package.json"), "utf8"));
    const file = (await readdir(folder)).find((one) => /^licen[cs]e/i.test(one));
    if (!file) throw new Error(`${name} has no licence file`);
    parts.push(`${name} ${version} (${license})\n\n${(await readFile(join(folder, file), "utf8")).trim()}\n`);
  }
  return `The page contains these packages.\n\n${parts.join(`\n${"-".repeat(80)}\n\n`)}`;
}

async function build() {
  await rm(out, { recursive: true, force: true });
  await mkdir(out, { recursive: true });
  const { metafile } = await esbuild.build(settings);
  await cp(join(web, "index.html"), join(out, "index.html"));
  await cp(join(web, "icon.svg"), join(out, "icon.svg"));
  await writeFile(join(out, "third-party-licences.txt"), await licences(metafile));
  const built = {};
  for (const path of await files(out)) built[relative(out, path)] = digest(await readFile(path));
  await writeFile(join(out, "build.json"), `${JSON.stringify({ sources: await sources(), files: built }, null, 2)}\n`);
}

if (process.argv.includes("--watch")) {
  await build();
  const context = await esbuild.context({ ...settings, minify: false, logLevel: "info" });
  await context.watch();
} else {
  await build();
}
