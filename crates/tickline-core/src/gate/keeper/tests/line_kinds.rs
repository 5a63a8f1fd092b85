//! Judgements for the common line and for the CPUs' lines.

use super::*;

/// To the CPUs' lines, and back. A judgement is for one kind of lines, and admits no line of the
/// other.
const KINDS: [LineKind; 3] = [LineKind::Common, LineKind::PerCpu, LineKind::Common];

/// Begins the judgement for these lines.
fn begin_for(kept: &Kept, kind: LineKind) -> BegunJudgement {
    kept.keeper.set_line_kind(kind);
    let begun = kept.begin_if_due(0).expect("a new kind");
    assert_eq!(begun.line_kind(), kind);
    begun
}

/// Has the gates judged for these lines, and found open.
fn judge_for(kept: &Kept, kind: LineKind) {
    let begun = begin_for(kept, kind);
    assert_eq!(kept.settle(begun, OPEN), Some(kind));
}

#[test]
fn no_kind_of_lines_is_usable_before_its_judgement_has_unbarred_the_clock() {
    let kept = Kept::new();
    for kind in KINDS {
        let begun = begin_for(kept, kind);
        assert_eq!(kept.keeper.usable_line_kind(), None);
        kept.clock.cell().machine.hooks.set(|_| {
            assert_eq!(kept.keeper.usable_line_kind(), None, "before a step");
        });
        assert_eq!(kept.settle(begun, OPEN), Some(kind));
        kept.clock.cell().machine.hooks.clear();
        assert_eq!(kept.keeper.usable_line_kind(), Some(kind));
    }
}

#[test]
fn the_common_line_ends_before_readers_find_the_cpus_lines() {
    let kept = Kept::new();
    for kind in KINDS {
        let begun = begin_for(kept, kind);
        let bars = kept.bars();
        let ended = u64::from(kind == LineKind::PerCpu);
        kept.clock.cell().machine.hooks.set(move |_| {
            let is_found = kept.keeper.usable_line_kind().is_some();
            assert!(!is_found || kept.bars() - bars == ended, "{kind:?}");
        });
        assert_eq!(kept.settle(begun, OPEN), Some(kind));
        kept.clock.cell().machine.hooks.clear();
        assert_eq!(kept.bars() - bars, ended, "{kind:?}");
    }
}

#[test]
fn a_review_is_for_the_kind_of_lines_that_readers_use() {
    let kept = Kept::new();
    for kind in KINDS {
        judge_for(kept, kind);
        let begun = kept.keeper.begin_review().expect("judged before");
        assert_eq!(begun.line_kind(), kind);
        assert_eq!(kept.settle(begun, OPEN), Some(kind));
    }
}

#[test]
fn the_kind_of_lines_that_readers_use_is_not_judged_again() {
    let kept = Kept::new();
    for kind in KINDS {
        judge_for(kept, kind);
        kept.keeper.set_line_kind(kind);
        assert_eq!(kept.keeper.usable_line_kind(), Some(kind));
        assert!(kept.is_unbarred(), "{kind:?}");
    }
}
