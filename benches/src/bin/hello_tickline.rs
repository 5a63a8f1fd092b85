//! A program that only says hello, timed with tickline. A child of `startup`.
#![expect(clippy::print_stdout, reason = "it says hello")]

fn main() {
    let start = tickline::Instant::now();
    println!("hello after {:?}", start.elapsed());
}
