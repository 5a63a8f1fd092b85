//! The same benchmark with each version of criterion that is on.

macro_rules! version {
    ($name:ident, $criterion:ident) => {
        #[test]
        fn $name() {
            use std::time::Duration;

            use tickline_criterion::{BenchPairs, CounterTime, compare};

            let name = concat!("tickline-", stringify!($name));
            let directory = std::env::temp_dir().join(format!("{name}-{}", std::process::id()));
            let time = CounterTime::builder().quiet().output_directory(&directory).start_or_wall_time();
            let mut criterion = $criterion::Criterion::default()
                .with_measurement(time)
                .without_plots()
                .output_directory(&directory)
                .sample_size(10)
                .nresamples(1_000)
                .warm_up_time(Duration::from_millis(5))
                .measurement_time(Duration::from_millis(60));
            criterion.bench_function("plain", |bencher| bencher.iter(|| std::hint::black_box(3) * 7));
            criterion.bench_pairs("alone", |bencher| bencher.iter(|| std::hint::black_box(3) * 7));
            let id = $criterion::BenchmarkId::new("with", 7);
            criterion.bench_pairs_with_input(id, &7, |bencher, input| bencher.iter(|| input * 7));
            let mut group = criterion.benchmark_group("group");
            let id = $criterion::BenchmarkId::from_parameter("x");
            group.bench_pairs(id, |bencher| {
                bencher.iter_batched(|| 3, |input| input * 7, $criterion::BatchSize::SmallInput);
            });
            group.measurement_time(Duration::from_millis(400));
            let both = compare(&mut group, "both", || 3, || std::hint::black_box(3) * 7);
            assert!(both.is_some_and(|both| both.couples > 0));
            group.finish();
            for path in ["plain/new/estimates", "alone/new/pairs", "with/7/new/pairs", "group/x/new/pairs"] {
                let path = directory.join(format!("{path}.json"));
                assert!(path.exists(), "{}", path.display());
            }
            assert!(directory.join("group/both/new/comparison.json").exists());
            std::fs::remove_dir_all(&directory).expect("its own directory");
        }
    };
}

#[cfg(feature = "criterion-0-7")]
version!(criterion_0_7, criterion_0_7);
#[cfg(feature = "criterion-0-8")]
version!(criterion_0_8, criterion);
