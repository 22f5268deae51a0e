// Runs the tests of what is worked out before it is drawn; the page as a whole is tested in a browser (tests/e2e).
import { spawnSync } from "node:child_process";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import * as esbuild from "esbuild";

const web = dirname(fileURLToPath(import.meta.url));
const out = await mkdtemp(join(tmpdir(), "ecntwin-page-"));
const tests = (await readdir(join(web, "tests"))).filter((name) => name.endsWith(".test.mjs"));
try {
  await esbuild.build({
    absWorkingDir: web,
    entryPoints: tests.map((name) => join("tests", name)),
    outdir: out,
    outExtension: { ".js": ".mjs" },
    bundle: true,
    platform: "node",
    format: "esm",
    logLevel: "warning",
  });
  const built = tests.map((name) => join(out, name));
  process.exitCode = spawnSync(process.execPath, ["--test", ...built], { stdio: "inherit" }).status ?? 1;
} finally {
  await rm(out, { recursive: true, force: true });
}
