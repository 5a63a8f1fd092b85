//! A sample by itself, with pairs that the tests make up.

use super::*;
use crate::measurement::noise_loop::Noise;
use crate::measurement::progress::count_warm_up_or_measurement;
use crate::pairs::disturbance::Disturbance;
use crate::pairs::long_pairs::judge_long;
use criterion::measurement::Measurement;
use std::time::Duration;
use tickline_observe::skip;

/// A collector of samples by this clock.
fn collector_by<const N: usize>(time: &CounterTime, serving: Option<Serving>) -> Collector<N> {
    _ = time.zero();
    Collector::new(serving)
}

/// A collector of samples by the OS clock, whose ticks are ns, and whose pairs cost nothing.
fn collector<const N: usize>(serving: Option<Serving>) -> Collector<N> {
    let time = CounterTime::builder()
        .quiet()
        .settle(Duration::MAX) // out of range
        .build_or_wall_time();
    collector_by(&time, serving)
}

/// This many bundles of a pair of 0 ticks, all at once.
fn bundles(count: usize) -> Vec<[PairReads; 1]> {
    vec![[PairReads::default()]; count]
}

/// A bundle of a pair that lasts until `end_ticks`.
fn until(end_ticks: u64) -> [PairReads; 1] {
    [PairReads {
        end_ticks,
        ..PairReads::default()
    }]
}

/// A sample gets at most twice the bundles that criterion requested, also if bundles of the
/// slice and of the block are disturbed. A bencher that made more inputs would not use them.
#[test]
fn a_sample_needs_no_more_bundles_than_its_limit_leaves() {
    let mut collector = collector::<1>(None);
    collector
        .slice
        .add_block(&mut bundles(50), Some(Disturbance::Preempted));
    let mut sample = collector.begin_sample(100);
    sample.bundles_in_slices = 100;
    sample.block = bundles(10);
    assert_eq!(sample.min_left(), 200 - 100 - 50 - 10);
}

#[test]
fn the_scale_has_the_mean_of_the_subtracted_costs() {
    let mut collector = collector::<1>(None);
    // No pair on this machine costs as much.
    (collector.collected.cost_ticks, collector.collected.bundles) = (4e9, 4);
    assert_eq!(collector.scale().cost_ticks, 1e9);
}

/// criterion warms up by another bencher.
#[test]
fn the_bundles_of_the_warm_up_are_not_results() {
    let mut collector = collector::<1>(None);
    collector.collected.bundles = 4;
    count_warm_up_or_measurement();
    collector.begin_sample(1);
    assert_eq!(collector.collected.bundles, 0);
}

/// The caches are cold in the warm-up.
#[test]
fn the_long_pairs_of_the_warm_up_are_forgotten() {
    let mut collector = collector::<1>(None);
    judge_long(&mut collector.long_pairs, [vec![7]], &Noise::default());
    count_warm_up_or_measurement();
    collector.begin_sample(1);
    assert_eq!(collector.long_pairs, [LongPairs::default()]);
}

/// criterion makes no other bencher after its warm-up.
#[test]
fn a_process_that_serves_judges_each_slice_alone() {
    let mut collector = collector::<1>(Some(Serving::new(1.0)));
    judge_long(&mut collector.long_pairs, [vec![7]], &Noise::default());
    collector.begin_sample(1);
    assert_eq!(collector.long_pairs, [LongPairs::default()]);
}

#[test]
fn the_long_pairs_of_earlier_slices_are_kept() {
    let mut collector = collector::<1>(None);
    let mut sample = collector.begin_sample(100);
    sample.collector.slice.add_block(&mut vec![until(7)], None);
    sample.close_slice();
    assert_ne!(collector.long_pairs, [LongPairs::default()]);
}

/// Symptom: criterion's analysis and plots made `--against` take up to 15 times as long as the
/// measurement.
#[test]
fn the_time_of_the_measurement_ends_with_its_last_sample() {
    let mut collector = collector::<1>(None);
    collector.begin_sample(1).finish();
    let measured_for = collector.measured_for();
    std::thread::sleep(Duration::from_millis(1));
    assert!(measured_for > Duration::ZERO);
    assert_eq!(collector.measured_for(), measured_for);
}

#[test]
fn the_bundles_of_earlier_samples_are_kept() {
    let mut collector = collector::<1>(None);
    collector.collected.bundles = 4;
    collector.begin_sample(1);
    assert_eq!(collector.collected.bundles, 4);
}

/// A collector with stretches of 3, 2 and 4 couples. If the thread was preempted in a stretch, its
/// couples are left out, and this function tries again.
fn collector_with_three_stretches() -> Collector<2> {
    for _ in 0..100 {
        let mut collector = collector::<2>(None);
        let mut sample = collector.begin_sample(100);
        for (copy, bundles) in [(1, 3), (0, 2), (1, 4)] {
            for _ in 0..bundles {
                _ = sample.push([PairReads::default(); 2]);
            }
            sample.end_stretch(copy);
        }
        if sample.pending() == 9 {
            return collector;
        }
    }
    panic!("a stretch lost couples in each of 100 tries");
}

#[test]
fn nine_bundles_of_a_hundred_are_nine_hundredths() {
    let mut collector = collector::<1>(None);
    let mut sample = collector.begin_sample(100);
    sample.block = bundles(9);
    assert!(sample.has_share(9, 100));
}

#[test]
fn nine_bundles_of_a_hundred_are_less_than_a_tenth() {
    let mut collector = collector::<1>(None);
    let mut sample = collector.begin_sample(100);
    sample.block = bundles(9);
    assert!(!sample.has_share(1, 10));
}

#[test]
fn a_stretch_has_the_couples_since_the_one_before_and_its_copy() {
    let replicates = collector_with_three_stretches().collected.replicates(3);
    let couples: Vec<(usize, usize)> = replicates
        .iter()
        .map(|replicate| (replicate.couples().len(), replicate.stretches()))
        .collect();
    assert_eq!(couples, [(2, 1), (7, 2), (0, 0)]);
}

#[test]
fn a_build_that_serves_ends_a_sample_after_its_first_slice() {
    let mut collector = collector::<1>(Some(Serving::new(1.0)));
    let slice_ticks = collector.monitor.slice_ticks;
    let mut sample = collector.begin_sample(100);
    assert!(sample.push(until(1)).is_continue());
    assert!(sample.push(until(slice_ticks + 1)).is_break());
}

#[test]
fn a_block_ends_after_its_time() {
    let mut collector = collector(None);
    let block_ticks = collector.monitor.block_ticks;
    let mut sample = collector.begin_sample(100);
    _ = sample.push(until(block_ticks - 1));
    assert_eq!(sample.block.len(), 1);
    _ = sample.push(until(block_ticks));
    assert_eq!((sample.block.len(), sample.collector.slice.count()), (0, 2));
}

#[test]
fn a_block_ends_after_its_last_pair() {
    let mut collector = collector(None);
    let mut sample = collector.begin_sample(10_000);
    for _ in 1..BLOCK_PAIRS {
        _ = sample.push(until(0));
    }
    assert_eq!(sample.block.len(), BLOCK_PAIRS - 1);
    _ = sample.push(until(0));
    assert_eq!(sample.block.len(), 0);
}

#[test]
fn a_block_ends_when_the_sample_may_have_enough_bundles() {
    let mut collector = collector(None);
    let mut sample = collector.begin_sample(3);
    _ = sample.push(until(0));
    _ = sample.push(until(0));
    assert_eq!(sample.block.len(), 2);
    _ = sample.push(until(0));
    assert_eq!(sample.block.len(), 0);
}

/// The pairs of a bundle may overlap, and be in either order.
#[test]
fn a_block_lasts_from_its_first_start_to_its_last_end() {
    let pair = |start_ticks, end_ticks| PairReads {
        start_ticks,
        end_ticks,
        cpus: None,
    };
    let mut collector = collector(None);
    let mut sample = collector.begin_sample(100);
    sample.block = vec![[pair(20, 30), pair(5, 10)], [pair(50, 60), pair(40, 45)]];
    assert_eq!(sample.block_ticks(), 60 - 5);
}

#[test]
fn the_time_of_a_slice_is_that_of_its_blocks() {
    let mut collector = collector(None);
    let mut sample = collector.begin_sample(100);
    for block_ticks in [7, 4] {
        sample.block = vec![until(block_ticks)];
        _ = sample.close_block();
    }
    assert_eq!(sample.slice_ticks, 7 + 4);
}

#[test]
fn a_slice_goes_on_until_its_time_is_over() {
    let mut collector = collector(None);
    let slice_ticks = collector.monitor.slice_ticks;
    let mut sample = collector.begin_sample(100);
    sample.slice_ticks = slice_ticks - 1;
    sample.block = bundles(2);
    assert!(sample.close_block().is_continue());
    assert_eq!(
        (sample.bundles_in_slices, sample.collector.slice.count()),
        (0, 2)
    );
}

#[test]
fn a_slice_ends_after_its_time() {
    let mut collector = collector(None);
    let slice_ticks = collector.monitor.slice_ticks;
    let mut sample = collector.begin_sample(100);
    sample.slice_ticks = slice_ticks;
    sample.block = bundles(2);
    assert!(sample.close_block().is_continue());
    assert_eq!(
        (sample.bundles_in_slices, sample.collector.slice.count()),
        (2, 0)
    );
}

#[test]
fn each_slice_begins_at_0() {
    let mut collector = collector::<1>(None);
    let mut sample = collector.begin_sample(100);
    sample.slice_ticks = 7;
    sample.close_slice();
    assert_eq!(sample.slice_ticks, 0);
}

#[test]
fn the_bundles_of_all_slices_are_taken() {
    let mut collector = collector(None);
    let mut sample = collector.begin_sample(100);
    for count in [3, 4] {
        let slice = &mut sample.collector.slice;
        slice.add_block(&mut bundles(count), None);
        sample.close_slice();
    }
    assert_eq!(
        (sample.bundles_in_slices, sample.collector.collected.bundles),
        (7, 7)
    );
}

#[test]
fn a_slice_adds_the_cost_of_each_of_its_bundles() {
    let time = CounterTime::builder().quiet().build_or_wall_time();
    let Some(session) = time.session() else {
        return skip("the counter does not measure here");
    };
    let cost_ticks = session.observations().scale.cost_ticks;
    let mut collector = collector_by(&time, None);
    let mut sample = collector.begin_sample(100);
    for count in [3, 4] {
        let slice = &mut sample.collector.slice;
        slice.add_block(&mut bundles(count), None);
        sample.close_slice();
    }
    let (sum, expected) = (collector.collected.cost_ticks, 7.0 * cost_ticks);
    assert!((sum - expected).abs() < 1e-6 * expected, "{sum} {expected}");
}

#[test]
fn a_sample_ends_with_enough_bundles_that_count() {
    let mut collector = collector::<1>(None);
    let mut sample = collector.begin_sample(100);
    sample.collector.collected.sample_kept.bundles = 99;
    assert!(sample.close_block().is_continue());
    sample.collector.collected.sample_kept.bundles = 100;
    assert!(sample.close_block().is_break());
}

/// A sample of disturbed bundles never has enough of them.
#[test]
fn a_sample_ends_with_twice_the_bundles_that_it_needs() {
    let mut collector = collector::<1>(None);
    let mut sample = collector.begin_sample(100);
    sample.bundles_in_slices = 199;
    assert!(sample.close_block().is_continue());
    let slice = &mut sample.collector.slice;
    slice.add_block(&mut bundles(1), Some(Disturbance::Preempted));
    assert!(sample.close_block().is_break());
}

#[test]
fn a_sample_needs_8_bundles_or_more_if_two_routines_run_in_turns() {
    let mut collector = collector::<2>(None);
    assert_eq!(
        [1, 9].map(|bundles| collector.begin_sample(bundles).wanted),
        [8, 9]
    );
}

#[test]
fn a_sample_needs_one_bundle_for_the_iterations_of_a_pair() {
    let mut collector = collector::<1>(None);
    collector.iterations_per_pair = Some(5);
    let wanted = [5, 6, 0].map(|iterations| collector.begin_sample(iterations).wanted);
    assert_eq!(wanted, [1, 2, 1]);
}

/// A sample of 30 iterations by the OS clock, of which four pairs of five iterations took 100 ns
/// each. Returns what criterion gets.
fn finished_sample(collector: &mut Collector<1>) -> Elapsed {
    collector.iterations_per_pair = Some(5);
    let sample = collector.begin_sample(30);
    sample.collector.collected.sample_kept = SampleKept {
        bundles: 4,
        ticks: 400,
    };
    sample.finish()
}

#[test]
fn criterion_gets_the_mean_pair_for_all_iterations() {
    let returned = finished_sample(&mut collector::<1>(None));
    assert_eq!(returned.to_ns(&Scale::WALL), 600.0);
}

/// criterion's files of the benchmark are found by it.
#[test]
fn what_criterion_gets_is_kept() {
    let mut collector = collector::<1>(None);
    finished_sample(&mut collector);
    assert_eq!(collector.collected.returned_ns, [600.0]);
}

#[test]
fn the_time_of_a_sample_is_that_of_one_iteration() {
    let mut collector = collector::<1>(None);
    finished_sample(&mut collector);
    assert_eq!(collector.collected.sample_times_ns, [20.0]);
}

/// Symptom: a comparison in turns by a clock whose readings cost 0.3 us was too short for a
/// percentage, although a pair had many iterations.
#[test]
fn a_pair_in_turns_lasts_2_us_and_a_hundred_times_its_cost() {
    for (cost_ticks, min_ticks) in [(0.0, 2_000.0), (20.0, 2_000.0), (300.0, 30_000.0)] {
        let found = collector::<2>(None).min_pair_ticks(Inputs::None, || cost_ticks);
        let found = found.expect("a limit");
        assert!((found - min_ticks).abs() < 1e-6, "{found} ticks");
    }
}

/// Symptom: by a slow clock, a pair had 2048 inputs that took 10 us each to make.
#[test]
fn a_pair_in_turns_whose_inputs_are_made_before_it_lasts_2_us_at_any_cost() {
    let found = collector::<2>(None).min_pair_ticks(Inputs::MadeBefore, || 300.0);
    let found = found.expect("a limit");
    assert!((found - 2_000.0).abs() < 1e-6, "{found} ticks");
}

#[test]
fn the_iterations_of_a_pair_are_doubled_until_it_is_long_enough() {
    for (iteration_ticks, iterations) in [(2_000, 1), (1_999, 2), (125, 16), (124, 32)] {
        let chosen = iterations_lasting(2_000.0, |iterations| iterations * iteration_ticks);
        assert_eq!(chosen, iterations, "{iteration_ticks} ticks");
    }
}

/// By readings that cost nothing, as those of a coarse clock may seem to.
#[test]
fn a_pair_of_any_length_needs_no_trial() {
    let chosen = iterations_lasting(0.0, |_| panic!("a trial"));
    assert_eq!(chosen, 1);
}

#[test]
fn the_shortest_of_some_trials_decides_about_the_iterations_of_a_pair() {
    let mut trials = 0;
    let chosen = iterations_lasting(2_000.0, |iterations| {
        trials += 1;
        if trials % TRIALS == 0 {
            iterations * 1_000
        } else {
            1_000_000
        }
    });
    assert_eq!(chosen, 2);
}

#[test]
fn a_routine_that_takes_no_time_has_pairs_of_a_million_iterations() {
    let chosen = collector::<2>(None).choose_iterations_per_pair(Inputs::None, |_| 0);
    assert_eq!(chosen, 1 << 20);
}

#[test]
fn a_single_routine_without_a_share_has_pairs_of_one_iteration() {
    let chosen = collector::<1>(None).choose_iterations_per_pair(Inputs::None, |_| 0);
    assert_eq!(chosen, 1);
}

#[test]
fn the_iterations_of_a_pair_are_chosen_once() {
    let mut collector = collector::<2>(None);
    let chosen =
        collector.choose_iterations_per_pair(Inputs::None, |iterations| iterations * 1_000);
    let again = collector.choose_iterations_per_pair(Inputs::None, |_| 0);
    assert_eq!((again, collector.iterations_per_pair()), (chosen, chosen));
}

#[test]
fn futures_have_no_pairs_of_one_iteration_by_choice() {
    let mut collector = collector::<1>(None);
    collector.pair_size = PairSize::One;
    assert!(!collector.has_pairs_of_one());
    collector.choose_iterations_per_pair(Inputs::None, |_| 0);
    assert!(collector.has_pairs_of_one());
}

/// Symptom: the advice about a future was to call `cost_share`, with which `iter_async` panics.
#[test]
fn nothing_gives_a_pair_of_a_future_more_iterations() {
    for pair_size in [PairSize::Usual, PairSize::One] {
        let mut collector = collector::<1>(None);
        collector.pair_size = pair_size;
        assert_eq!(collector.more_iterations(), MoreIterations::Nothing);
    }
}

#[test]
fn cost_share_gives_a_pair_more_iterations_perhaps_in_place_of_latency() {
    for (pair_size, expected) in [
        (PairSize::Usual, MoreIterations::CostShare),
        (PairSize::CostShare(0.5), MoreIterations::CostShare),
        (PairSize::One, MoreIterations::InPlaceOfLatency),
    ] {
        let mut collector = collector::<1>(None);
        collector.pair_size = pair_size;
        collector.choose_iterations_per_pair(Inputs::None, |_| 1_000_000);
        assert_eq!(collector.more_iterations(), expected, "{pair_size:?}");
    }
}

/// If criterion tests or profiles, it converts one sample at most.
#[test]
fn criterion_has_measured_after_the_second_sample() {
    let collector = collector::<1>(None);
    assert!(!collector.has_measured());
    for expected in [false, true] {
        collector.time.to_f64(&Elapsed::from_ns(1.0));
        assert_eq!(collector.has_measured(), expected);
    }
}

#[test]
fn a_process_that_does_not_serve_makes_the_calls_that_criterion_requests() {
    assert_eq!(collector::<1>(None).begin_call(7), Some(7));
}

#[test]
fn criterions_sum_of_two_times_is_their_sum() {
    let time = collector::<1>(None).time;
    let sum = time.add(&Elapsed::from_ns(1.0), &Elapsed::from_ns(2.0));
    assert_eq!(sum.other_ps, Elapsed::from_ns(3.0).other_ps);
}
