//! chronyd: the report in its state, [`Tracking`].
//!
//! chronyd keeps an NTP clock. The system clock is slewed towards it, and is off by the
//! correction that is left. UTC is within the root dispersion and half of the root delay of the NTP
//! clock (chronyc(1), "tracking": Root delay, Root dispersion). The dispersion grows with the skew,
//! the residual frequency, and what chronyd assumes of the oscillator itself (`maxclockerror`, 1
//! ppm; `get_root_dispersion` in `reference.c`). A larger `maxclockerror` is not in the reply.
//!
//! UTC runs at 1 - f of the rate of `CLOCK_MONOTONIC_RAW`, where f is the frequency in the reply
//! (`current_freq_ppm` in `local.c`). This is not so with `chronyd -x` (f is then relative to
//! `CLOCK_REALTIME`), with `tempcomp` (the reply leaves its part out), and with the kernel's
//! parameter `ntp_tick_adj`. Then the next reply contradicts the claim (`claim_maker.rs`).

use std::time::Duration;

use crate::sys::chronyd::{PLACES, Tracking};
use crate::utc::claim_maker::{Report, WANDER_PPB};
use crate::utc::{UtcSource, UtcUnknown};

/// The largest rate of the kernel's other clocks against `CLOCK_MONOTONIC_RAW`, without steering,
/// ppb. A tick of the other clocks is a second divided by HZ (`ntp_update_frequency` in
/// `kernel/time/ntp.c`). A tick of `CLOCK_MONOTONIC_RAW` is rounded down to ns first
/// (`tk_setup_internals` in `timekeeping.c`). With HZ=300 this makes 0.1 ppm. Kernels of 2016 round
/// down once more (`raw_interval` there): up to 1 ns of a tick, and 1 ppm with HZ=1000.
const TICK_PPB: i64 = 1_000;

/// The longest wait for a reply. On the same machine a reply comes at once, or never.
pub(super) const REPLY_TIMEOUT: Duration = Duration::from_millis(20);

/// The report in chronyd's state. This machine's hardware clocks have an error of up to
/// `phc_bound_ns`.
pub(super) fn report(tracking: &Tracking, phc_bound_ns: i64) -> Result<Report, UtcUnknown> {
    if !tracking.is_synchronised() {
        return Err(UtcUnknown::Unsynchronised);
    }
    let Tracking { correction_ns, frequency_ppb, unsure_ppb, delay_ns, dispersion_ns, .. } = *tracking;
    // Each value was rounded twice, by chronyd and to nanoseconds.
    let rounded_ns = [correction_ns, dispersion_ns, delay_ns]
        .iter()
        .fold(5, |sum: i64, ns| sum.saturating_add(ns.saturating_abs() >> PLACES));
    let request_ns = rounded_ns.saturating_add(if tracking.is_clock { phc_bound_ns } else { 0 });
    let bound_ns = dispersion_ns.saturating_add(delay_ns / 2).saturating_add(request_ns);
    let rounded_ppb = (frequency_ppb.saturating_abs() >> PLACES) + 3;
    let (rate_ppb, drift_ppb) =
        (frequency_ppb.saturating_neg(), unsure_ppb.saturating_add(WANDER_PPB + TICK_PPB + rounded_ppb));
    Ok(Report {
        source: UtcSource::Chronyd,
        offset_ns: [correction_ns.saturating_sub(bound_ns), correction_ns.saturating_add(bound_ns)],
        request_ns,
        rates_ppb: [rate_ppb.saturating_sub(drift_ppb), rate_ppb.saturating_add(drift_ppb)],
        valid_ns: i64::MAX,
        measurement: tracking.measurement,
        leap_second_today: matches!(tracking.leap_status, 1 | 2),
    })
}

#[cfg(test)]
mod tests;
