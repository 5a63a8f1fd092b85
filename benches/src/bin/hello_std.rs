//! A program that only says hello, timed with std. A child of `startup`.
#![expect(clippy::print_stdout, reason = "it says hello")]

fn main() {
    let start = std::time::Instant::now();
    println!("hello after {:?}", start.elapsed());
}
