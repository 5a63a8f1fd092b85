# The protocol of load.c, in Ruby.
require "json"

def measure(calls)
  first = last = yield
  back = 0
  (calls - 1).times do
    now = yield
    back += 1 if now < last
    last = now
  end
  [calls, back, first, last, 1]
end

BATCH = 1000

def fastest(calls)
  batches = (calls / BATCH).times.map do
    start = Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond)
    (BATCH - 1).times { Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond) }
    Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond) - start
  end
  [BATCH, batches.min]
end

puts "ready"
$stdout.flush
while (line = $stdin.gets)
  calls = line.to_i
  seen = {
    monotonic: measure(calls) { Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond) },
    realtime: measure(calls) { Process.clock_gettime(Process::CLOCK_REALTIME, :nanosecond) },
    batch: fastest(calls),
  }
  puts JSON.generate(seen)
  $stdout.flush
end
