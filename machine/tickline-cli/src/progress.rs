//! A progress bar on stderr during a measurement, if stderr is a terminal that can redraw a line.

use std::env;
use std::ffi::OsStr;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// The bar of one command, for all parts of its measurement.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
}

impl Progress {
    pub(crate) fn new() -> Self {
        Self::drawn_on(target(env::var_os("TERM").as_deref()))
    }

    /// The progress of a measurement that shows none, such as one for a monitoring system.
    pub(crate) fn hidden() -> Self {
        Self::drawn_on(ProgressDrawTarget::hidden())
    }

    fn drawn_on(target: ProgressDrawTarget) -> Self {
        Self::shown(
            ProgressBar::with_draw_target(Some(1_000), target),
            "measuring {msg:17} [{bar:30}] {percent:>3} %",
        )
    }

    /// The progress of a measurement without an end: a number of samples.
    pub(crate) fn without_end() -> Self {
        let target = target(env::var_os("TERM").as_deref());
        Self::shown(
            ProgressBar::with_draw_target(None, target),
            "measuring {msg:17} {pos}",
        )
    }

    /// The bar before the first part, drawn at once.
    fn shown(bar: ProgressBar, template: &str) -> Self {
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_message("the start");
        bar.tick();
        Self { bar }
    }

    /// Shows the number of samples of a measurement without an end.
    pub(crate) fn count(&self, samples: u64) {
        self.bar.set_message("samples");
        self.bar.set_position(samples);
    }

    /// Starts the part `name`, which moves the bar from the share `from` to the share `to`. The
    /// caller calls the result with the finished share of the part.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of 1,000 steps"
    )]
    pub(crate) fn part(&self, name: &'static str, from: f64, to: f64) -> impl FnMut(f64) + '_ {
        self.bar.set_message(name);
        move |done| {
            self.bar
                .set_position(((from + done * (to - from)) * 1e3) as u64)
        }
    }

    /// Removes the bar.
    pub(crate) fn finish(self) {
        self.bar.finish_and_clear();
    }
}

/// Where the bar is drawn, by the variable `TERM`. A terminal that is `dumb`, as a serial console
/// may be, would show each state of the bar behind the one before. Windows does not set the
/// variable.
fn target(term: Option<&OsStr>) -> ProgressDrawTarget {
    let is_dumb = match term {
        None => cfg!(unix),
        Some(term) => term.is_empty() || term == "dumb",
    };
    if is_dumb {
        ProgressDrawTarget::hidden()
    } else {
        ProgressDrawTarget::stderr()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bar's position after each of these finished shares of a part from 25 to 75 %.
    fn positions_of_part<const N: usize>(shares: [f64; N]) -> [u64; N] {
        let progress = Progress::new();
        let mut part = progress.part("costs", 0.25, 0.75);
        shares.map(|done| {
            part(done);
            progress.bar.position()
        })
    }

    #[test]
    fn a_part_moves_the_bar_within_its_shares() {
        assert_eq!(positions_of_part([0.0, 0.5, 1.0]), [250, 500, 750]);
    }

    #[test]
    fn the_bar_shows_the_name_of_the_last_part() {
        let progress = Progress::new();
        _ = progress.part("costs", 0.0, 0.5);
        _ = progress.part("counters", 0.5, 1.0);
        assert_eq!(progress.bar.message(), "counters");
    }

    #[test]
    fn finish_ends_the_bar() {
        let progress = Progress::new();
        let bar = progress.bar.clone();
        progress.finish();
        assert!(bar.is_finished());
    }
}
