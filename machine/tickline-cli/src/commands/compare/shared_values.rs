//! How many machines share each value of a fact.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::compared_facts::Fact;

/// A value that several machines share.
pub(super) struct SharedFact {
    /// The fact of one of them.
    pub(super) fact: Fact,
    /// The number of machines that share it.
    pub(super) machines: usize,
}

/// The values, the most frequent first. `known` has one fact of several machines.
pub(super) fn shared_values<'a>(known: impl Iterator<Item = &'a Fact>) -> Vec<SharedFact> {
    let known: Vec<&Fact> = known.collect();
    if known.iter().any(|fact| fact.has_tolerance()) {
        shared_within_tolerance(known)
    } else {
        shared_exactly(known)
    }
}

/// For facts without a tolerance. A fleet has thousands of machines, each with a value of its own,
/// so they are not compared in pairs.
fn shared_exactly(known: Vec<&Fact>) -> Vec<SharedFact> {
    let mut places = BTreeMap::new();
    let mut shared: Vec<SharedFact> = Vec::new();
    for fact in known {
        let place = *places.entry(fact.value.key()).or_insert(shared.len());
        match shared.get_mut(place) {
            Some(known) => known.machines += 1,
            None => shared.push(SharedFact {
                fact: fact.clone(),
                machines: 1,
            }),
        }
    }
    shared.sort_by_key(|shared| Reverse(shared.machines));
    shared
}

/// For figures with a tolerance. A value is that with the most others within its tolerance.
fn shared_within_tolerance(mut left: Vec<&Fact>) -> Vec<SharedFact> {
    let mut shared = Vec::new();
    while !left.is_empty() {
        let (mut place, mut most) = (0, 0);
        for (index, fact) in left.iter().enumerate() {
            let machines = left.iter().filter(|other| fact.equals(other)).count();
            if machines > most {
                (place, most) = (index, machines);
            }
        }
        // It leaves by its place, so that each round has fewer, whatever the figures are.
        let fact = left.remove(place);
        left.retain(|other| !fact.equals(other));
        shared.push(SharedFact {
            fact: fact.clone(),
            machines: most,
        });
    }
    shared
}
