# Offset (line) and bound (shaded) over time. In the root of the workspace:
#   cargo xtask sim track > target/offsets.dat && gnuplot docs/offsets.gp > docs/offsets.svg
# The vertical axis is linear up to 10 ns around 0, and logarithmic beyond: 2 is 100 ns.
set terminal svg size 1000,1500 font "sans-serif,12" background "white"
set multiplot layout 5,1
array titles[5] = ["steady reference", "NTP slew: 500 ppm from 5.1 s to 10.1 s", "slew by 100,000 ppm from 5.1 s to 10.1 s", \
    "Unix time set ahead by 1 h at 5.1 s", "asleep for 10 s from 5.1 s, the counter running"]
log_ns(ns) = abs(ns) < 10 ? ns / 10.0 : sgn(ns) * log10(abs(ns))
set lmargin 10
set grid xtics ytics linetype 1 linecolor "#cccccc"
set format x "%g s"
set key top right opaque samplen 1
set border 3
set tics out nomirror
data = "target/offsets.dat"
do for [i = 1:5] {
    set title titles[i]
    set xrange [*:*]
    set yrange [*:*]
    stats data index i - 1 using 1:(abs(log_ns($5)) > abs(log_ns($3)) ? abs(log_ns($5)) : abs(log_ns($3))) name "all" nooutput
    most = all_max_y > 2 ? all_max_y * 1.05 : 2.1
    set xrange [0:all_max_x]
    set yrange [-most:most]
    unset ytics
    set ytics ("0" 0, "100 ns" 2, "-100 ns" -2)
    if (most < 4) { set ytics add ("10 ns" 1, "-10 ns" -1, "1 us" 3, "-1 us" -3) }
    else { set ytics add ("10 us" 4, "-10 us" -4, "1 ms" 6, "-1 ms" -6, "100 ms" 8, "-100 ms" -8, "10 s" 10, "-10 s" -10, \
        "1000 s" 12, "-1000 s" -12) }
    # Where the OS clock served, there is nothing to bound.
    plot data index i - 1 using ($6 == 1 ? $1 : NaN):(log_ns($3)):(log_ns($4)) with filledcurves linecolor "#c8d7f0" notitle, \
        "" index i - 1 using 1:(log_ns($5)) with lines linecolor "#c86e00" title "Unix time", \
        "" index i - 1 using 1:(log_ns($2)) with lines linecolor "#14328c" title "monotonic time"
}
