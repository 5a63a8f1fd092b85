//! A child of `startup`: a hello-world that reads the time by std.
#![expect(clippy::print_stdout, reason = "a hello-world prints")]

fn main() {
    let start = std::time::Instant::now();
    println!("hello after {:?}", start.elapsed());
}
