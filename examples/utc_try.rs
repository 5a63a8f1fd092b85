fn main() {
    let _g = tickline::start().unwrap();
    let c = tickline::Clock::global();
    for i in 0..40 {
        let r = c.utc();
        match r {
            Ok(r) => println!("{i} {} {:?} {} tai {:?}", r.earliest(), r.width(), r.source(), r.tai_offset()),
            Err(e) => println!("{i} {e}"),
        };
        std::thread::sleep(std::time::Duration::from_millis(if i < 10 { 2 } else { 200 }));
    }
    let n = 5_000_000u32;
    for _ in 0..3 {
        let t = std::time::Instant::now();
        for _ in 0..n {
            std::hint::black_box(c.utc().is_ok());
        }
        let a = t.elapsed() / n;
        let t = std::time::Instant::now();
        for _ in 0..n {
            std::hint::black_box(c.reading());
        }
        println!("utc {a:?} reading {:?}", t.elapsed() / n);
    }
}
