# Python's own tests for time: all of test_time, and those of test_datetime that read the present
# clock; or the tests of these names. A line for each: PASSED, FAILED or SKIPPED, a tab, its name.
import re
import sys
import unittest

PRESENT = re.compile(r"now|today|timestamp")


class Told(unittest.TestResult):
    def __init__(self):
        super().__init__()
        self.results = {}

    def tell(self, test, result, why=""):
        # A test of several parts has failed if one of them has.
        if self.results.get(test.id()) != "FAILED":
            self.results[test.id()] = result
        if why:
            print(test.id(), why, file=sys.stderr, flush=True)

    def addSuccess(self, test):
        self.tell(test, "PASSED")

    def addSkip(self, test, reason):
        self.tell(test, "SKIPPED")

    def addFailure(self, test, error):
        self.tell(test, "FAILED", self._exc_info_to_string(error, test))

    def addError(self, test, error):
        self.addFailure(test, error)

    def addExpectedFailure(self, test, error):
        self.tell(test, "PASSED")

    def addUnexpectedSuccess(self, test):
        self.tell(test, "FAILED", "unexpected success")

    def addSubTest(self, test, part, error):
        if error is not None:
            self.tell(test, "FAILED", self._exc_info_to_string(error, test))


def tests(suite):
    for it in suite:
        yield from tests(it) if isinstance(it, unittest.TestSuite) else [it]


def main():
    loader = unittest.TestLoader()
    found = list(tests(loader.loadTestsFromNames(["test.test_time", "test.test_datetime"])))
    names = set(sys.argv[1:])
    if names:
        wanted = [it for it in found if it.id() in names]
    else:
        wanted = [it for it in found if "test_time." in it.id() or PRESENT.search(it.id().rpartition(".")[2])]
    told = Told()
    # A suite calls what prepares a class and a module.
    unittest.TestSuite(wanted).run(told)
    for name, result in told.results.items():
        print(result, name, sep="\t", flush=True)


main()
