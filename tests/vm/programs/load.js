// As load.c.
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

console.log("ready");
require("readline").createInterface({ input: process.stdin }).on("line", (line) => {
  const calls = Number(line);
  const monotonic = measure(process.hrtime.bigint, calls, 1n);
  const realtime = measure(Date.now, calls, 1000000n);
  console.log(`{"monotonic":${monotonic},"realtime":${realtime}}`);
});
