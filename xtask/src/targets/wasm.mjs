// Runs a program that was compiled to WebAssembly, under Node.js: with WASI if it asks for it, and else with nothing at all.
import { readFile } from "node:fs/promises";
import { WASI } from "node:wasi";

const [path, ...args] = process.argv.slice(2);
const module = await WebAssembly.compile(await readFile(path));
const needsWasi = WebAssembly.Module.imports(module).some((one) => one.module === "wasi_snapshot_preview1");
if (needsWasi) {
    const wasi = new WASI({ version: "preview1", args: [path, ...args], returnOnExit: true });
    process.exitCode = wasi.start(await WebAssembly.instantiate(module, wasi.getImportObject()));
} else {
    // A panic is a trap there, and so an exception here.
    const { exports } = await WebAssembly.instantiate(module, {});
    process.exitCode = exports.main(0, 0);
}
