// Runs a WebAssembly program under Node.js: with WASI if the program imports it, otherwise without any imports.
import { readFile } from "node:fs/promises";
import { WASI } from "node:wasi";

const [path, ...args] = process.argv.slice(2);
const module = await WebAssembly.compile(await readFile(path));
const needsWasi = WebAssembly.Module.imports(module).some((one) => one.module === "wasi_snapshot_preview1");
if (needsWasi) {
    const wasi = new WASI({ version: "preview1", args: [path, ...args], returnOnExit: true });
    process.exitCode = wasi.start(await WebAssembly.instantiate(module, wasi.getImportObject()));
} else {
    // In WebAssembly a panic is a trap, which Node.js turns into an exception.
    const { exports } = await WebAssembly.instantiate(module, {});
    process.exitCode = exports.main(0, 0);
}
