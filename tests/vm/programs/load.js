// The protocol of load.c, in JavaScript.
const measure = (clock, calls, perUnit) => {
  const first = clock();
  let last = first, back = 0;
  for (let i = 1; i < calls; i++) {
    const now = clock();
    if (now < last) back++;
    last = now;
  }
  return `[${calls},${back},${BigInt(first) * perUnit},${BigInt(last) * perUnit},${perUnit}]`;
};

const BATCH = 1000;

const fastest = (calls) => {
  let fastest = BigInt(Number.MAX_SAFE_INTEGER);
  for (let batch = 0; batch < Math.floor(calls / BATCH); batch++) {
    const begin = process.hrtime.bigint();
    for (let i = 1; i < BATCH; i++) process.hrtime.bigint();
    const took = process.hrtime.bigint() - begin;
    if (took < fastest) fastest = took;
  }
  return `[${BATCH},${fastest}]`;
};

console.log("ready");
require("readline").createInterface({ input: process.stdin }).on("line", (line) => {
  const calls = Number(line);
  const monotonic = measure(process.hrtime.bigint, calls, 1n);
  const realtime = measure(Date.now, calls, 1000000n);
  console.log(`{"monotonic":${monotonic},"realtime":${realtime},"batch":${fastest(calls)}}`);
});
