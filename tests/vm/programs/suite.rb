# Ruby's own tests for time: all of test_time.rb, and those of test_process.rb for clocks; or the test of
# this name. A line for each: PASSED, FAILED or SKIPPED, a tab, its name.
$LOAD_PATH.unshift File.join(__dir__, "tool/lib")
require "test/unit"

module Told
  # Called once more for a test that fails in its teardown: the last line counts.
  def record(suite, method, assertions, time, error)
    result = case error
             when nil then "PASSED"
             when Test::Unit::PendedError then "SKIPPED"
             else "FAILED"
             end
    # The runner's own line has not ended.
    print "\n#{result}\t#{suite}##{method}\n"
    super
  end
end
Test::Unit::Runner.prepend Told

wanted = ARGV.first || "/\\A(TestTime#|TestProcess#test_clock_)/"
files = %w[time process].map { |name| "test/ruby/test_#{name}.rb" }
exit Test::Unit::AutoRunner.run(true, __dir__, ["--test-order=alpha", "--name", wanted, *files])
