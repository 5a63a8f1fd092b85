//! Each row has the figures of its guest, and the stored tables have each row.

use super::super::guest::{self, ExpectedFinding};
use super::super::judge;
use super::super::phase::{Comparison, Cost, Exchange, Found, Phase, Readers, Waited, Watched};
use super::*;

#[test]
fn a_guests_row_has_the_worst_of_its_phases() {
    let guests = guest::all().unwrap();
    let guest = guests.iter().find(|guest| guest.name == "tsc").unwrap();
    let watched = |state: &str, reason: Option<&str>, ahead_ns, behind_ns| {
        Some(Watched {
            state: state.to_owned(),
            reason: reason.map(str::to_owned),
            ahead_ns,
            behind_ns,
            ..Watched::default()
        })
    };
    let set_clock = |after_us| Phase {
        waited: Some(Waited {
            reached: true,
            after_us,
        }),
        ..Phase::named(phase::SET_CLOCK)
    };
    let phases = vec![
        Phase {
            clocksource: Some("tsc".to_owned()),
            watched: watched("fast", None, 30, 70),
            comparison: Some(Comparison {
                found: Found::Synchronised,
                ..Comparison::default()
            }),
            ..Phase::named(phase::BEFORE)
        },
        Phase {
            watched: watched("fallback", Some("slow"), 65, 1),
            ..Phase::named(phase::AFTER)
        },
        set_clock(900),
        set_clock(1_200),
        Phase {
            cost: Some(Cost {
                os_to_now_percent: 1_205,
                ..Cost::default()
            }),
            readers: Some(Readers {
                readings: 9_876_543,
                exchanges: 12_345,
                ..Readers::default()
            }),
            ..Phase::named(phase::END)
        },
    ];
    let run = Run {
        phases,
        ..Run::default()
    };
    let rows = GUESTS.rows(&[Row {
        guest,
        verdict: Ok(()),
        run,
    }]);
    let about = "the kernel keeps time with the TSC";
    assert_eq!(
        rows,
        format!(
            "| `tsc`: {about} | passed | tsc | synchronised | fast | fallback slow | 9876k | \
             12k | 0 | 70 | 1200 | 12.05x |\n"
        )
    );
}

#[test]
fn a_row_has_the_result_of_its_own_program() {
    let guests = guest::all().unwrap();
    let guest = guests.iter().find(|guest| guest.name == "hpet-1").unwrap();
    let exchange = Exchange {
        answers: 4,
        ..Exchange::default()
    };
    let phases = vec![
        Phase::unavailable("not built: Go", None),
        Phase {
            clocksource: Some("hpet".to_owned()),
            ..Phase::named(phase::MACHINE)
        },
        Phase {
            exchange: Some(exchange),
            ..Phase::named("Go with C served exchange")
        },
    ];
    let run = Run {
        phases,
        ..Run::default()
    };
    let rows = PROGRAMS.rows(&[Row {
        guest,
        verdict: judge::judge(guest, &run),
        run,
    }]);
    let result = |program: &str| {
        let start = format!("| hpet-1 | {program} | ");
        rows.lines()
            .find(|row| row.starts_with(&start))
            .unwrap()
            .rsplit(" | ")
            .next()
            .unwrap()
    };
    assert_eq!([result("Go"), result(THE_GUEST)], ["SKIPPED |", "passed |"]);
    let fault = "FAILED: Go with C served exchange: exchange.answers is 4";
    assert!(result("Go with C").starts_with(fault), "{rows}");
}

#[test]
fn the_stored_tables_have_a_row_for_each_guest_and_the_expected_findings() {
    let guests = guest::all().unwrap();
    let advice = "run `cargo xtask vm --write`";
    for table in TABLES {
        let block = files::block(table.file, table.block).unwrap();
        let (_, stored) = block.split_once("\n\n").expect(advice);
        assert_eq!(
            stored,
            table.merged(&guests, &[]).expect(advice),
            "{advice}"
        );
    }
    let findings = files::block(FINDINGS.file, FINDINGS.block).unwrap();
    let expected = guests.iter().flat_map(|guest| &guest.findings);
    for (ExpectedFinding { about, code, .. }, row) in expected.zip(findings.lines().skip(4)) {
        assert!(row.contains(&format!("| {about} | ")), "{advice}: {row}");
        assert!(
            row.contains(&format!("| `{code}` | {code} | ")),
            "{advice}: {row}"
        );
    }
}

#[test]
fn a_figure_that_is_missing_is_an_empty_cell() {
    let guests = guest::all().unwrap();
    let silent = |name: &str| Row {
        guest: guests.iter().find(|guest| guest.name == name).unwrap(),
        verdict: Ok(()),
        run: Run::default(),
    };
    assert_eq!(
        silent("tsc").figures(),
        [format!("passed{}", " | ".repeat(10))]
    );
    let debian = silent("hpet-1");
    let cells = debian.program(&debian.guest.programs[0]);
    assert!(
        cells.starts_with("- | - | - | - |  |  |  | - | "),
        "{cells}"
    );
}
