//! The measured routines: 1 ns to 10 us, of which two allocate.

use std::collections::hash_map::DefaultHasher;
use std::hash::Hasher;
use std::hint::black_box;
use std::sync::LazyLock;

use criterion::Bencher;
use criterion::measurement::Measurement;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Routine {
    Multiply,
    Allocate,
    Hash,
    Split,
    Sum,
}

pub(crate) const ROUTINES: [Routine; 5] = [
    Routine::Multiply,
    Routine::Allocate,
    Routine::Hash,
    Routine::Split,
    Routine::Sum,
];

/// As much as a second-level cache of 256 KiB holds: a load that walks through memory evicts it.
static VALUES: LazyLock<Vec<u64>> = LazyLock::new(|| (0..1 << 15).collect());

const TEXT: &str = "host=localhost,port=8080,user=nobody,timeout=30,retries=5,verbose=no";

fn multiply(value: u64) -> u64 {
    black_box(value).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

fn allocate() -> Box<[u64; 8]> {
    Box::new(black_box([7; 8]))
}

fn hash() -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(black_box(&[7; 256]));
    hasher.finish()
}

fn split() -> Vec<String> {
    black_box(TEXT).split(',').map(str::to_owned).collect()
}

fn sum() -> u64 {
    black_box(&*VALUES)
        .iter()
        .fold(0, |sum, value| sum ^ value.wrapping_mul(3))
}

impl Routine {
    /// The name in the report, and of the function below.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Multiply => "multiply",
            Self::Allocate => "allocate",
            Self::Hash => "hash",
            Self::Split => "split",
            Self::Sum => "sum",
        }
    }

    /// A plain `iter` of the routine.
    pub(crate) fn iterate<M: Measurement>(self, bencher: &mut Bencher<'_, M>) {
        match self {
            Self::Multiply => {
                let mut value = 3;
                bencher.iter(|| {
                    value = multiply(value);
                    value
                });
            }
            Self::Allocate => bencher.iter(allocate),
            Self::Hash => bencher.iter(hash),
            Self::Split => bencher.iter(split),
            Self::Sum => bencher.iter(sum),
        }
    }
}

/// The same routines for divan, which finds them by its attribute.
mod divan_benches {
    #[divan::bench]
    fn multiply(bencher: divan::Bencher<'_, '_>) {
        let mut value = 3;
        bencher.bench_local(|| {
            value = super::multiply(value);
            value
        });
    }

    #[divan::bench]
    fn allocate() -> Box<[u64; 8]> {
        super::allocate()
    }

    #[divan::bench]
    fn hash() -> u64 {
        super::hash()
    }

    #[divan::bench]
    fn split() -> Vec<String> {
        super::split()
    }

    #[divan::bench]
    fn sum() -> u64 {
        super::sum()
    }
}
