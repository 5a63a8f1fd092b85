//! A child of `startup`: a hello-world that reads the time by tickline.
#![expect(clippy::print_stdout, reason = "a hello-world prints")]

fn main() {
    let start = tickline::Instant::now();
    println!("hello after {:?}", start.elapsed());
}
