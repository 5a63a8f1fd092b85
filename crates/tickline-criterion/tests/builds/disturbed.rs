//! The test of `--include-disturbed`.

use crate::programs::Programs;

pub(crate) fn the_option_lets_disturbed_pairs_count(programs: &Programs) {
    for (arguments, are) in [
        (&[][..], "excluded"),
        (&["--include-disturbed"], "included"),
    ] {
        assert!(programs.run(100, "work/spin", arguments).status.success());
        assert_eq!(
            programs.json("work/spin/new/pairs.json")["disturbed_are"],
            are
        );
    }
}
