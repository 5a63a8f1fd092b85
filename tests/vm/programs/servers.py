# A server as a load, by the protocol of load.c: `servers.py NAME`. The words of RUN precede the server's
# own command. After `ready` come the numbers of the processes whose calls count.
import http.client
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import time

RUN = shlex.split(os.environ.get("RUN", ""))
FOLDER = "/tmp/servers"
PATIENCE_S = 300


def start(command, answers):
    """Starts a server, and waits until it answers."""
    server = subprocess.Popen(RUN + command, stdin=subprocess.DEVNULL, stdout=sys.stderr)
    for _ in range(PATIENCE_S * 10):
        if answers():
            return server
        if server.poll() is not None:
            break
        time.sleep(0.1)
    sys.exit(f"{command[0]} does not answer; exit code {server.poll()}")


def in_order(times_ns, resolution_ns):
    """An entry of the report, from the times that a server has returned."""
    back = sum(1 for last, now in zip(times_ns, times_ns[1:]) if now < last)
    return [len(times_ns), back, times_ns[0], times_ns[-1], resolution_ns]


def stop(server):
    server.send_signal(signal.SIGTERM)
    return server.wait()


class Redis:
    """Redis' command TIME. Redis reads the time around each command."""

    def __init__(self):
        self.server = start(["redis-server", "--port", "7001", "--save", ""], self.connects)
        self.pids = [self.server.pid]

    def connects(self):
        try:
            self.socket = socket.create_connection(("127.0.0.1", 7001))
            self.lines = self.socket.makefile("rb")
            return True
        except OSError:
            return False

    def ask(self, command):
        self.socket.sendall(command.encode() + b"\r\n")
        return self.lines.readline()

    def time_ns(self):
        self.ask("TIME")
        words = []
        for _ in range(2):
            self.lines.readline()
            words.append(int(self.lines.readline()))
        return words[0] * 1_000_000_000 + words[1] * 1000

    def load(self, calls):
        times_ns = [self.time_ns() for _ in range(calls)]
        return {"realtime": in_order(times_ns, 1000)}

    def stop(self):
        self.socket.close()
        return stop(self.server)


class Nginx:
    """Requests, with the time of each from the log, in ms."""

    LOG = FOLDER + "/access.log"

    def __init__(self):
        with open(FOLDER + "/nginx.conf", "w") as file:
            file.write(
                f"daemon off; worker_processes 1; pid {FOLDER}/nginx.pid; error_log stderr;\n"
                "events {} http { log_format times '$msec $request_time';\n"
                f"access_log {self.LOG} times; server {{ listen 127.0.0.1:7002; return 200 'good'; }} }}\n"
            )
        self.server = start(["nginx", "-e", "stderr", "-c", FOLDER + "/nginx.conf"], self.connects)
        with open(f"/proc/{self.server.pid}/task/{self.server.pid}/children") as file:
            self.pids = [int(pid) for pid in file.read().split()]

    def connects(self):
        try:
            self.connection = http.client.HTTPConnection("127.0.0.1", 7002)
            self.connection.request("GET", "/")
            return self.connection.getresponse().read() == b"good"
        except OSError:
            return False

    def load(self, calls):
        os.truncate(self.LOG, 0)
        for _ in range(calls):
            self.connection.request("GET", "/")
            answer = self.connection.getresponse()
            if answer.read() != b"good":
                sys.exit("nginx has sent something else")
        # nginx writes the line of a request after the answer.
        for _ in range(PATIENCE_S * 10):
            with open(self.LOG) as file:
                lines = file.read().splitlines()
            if len(lines) >= calls:
                break
            time.sleep(0.1)
        # The first line may be of the request that found out whether nginx answers.
        seconds = [line.split()[0].lstrip("\0") for line in lines[-calls:]]
        times_ns = [int(word.replace(".", "")) * 1_000_000 for word in seconds]
        return {"realtime": in_order(times_ns, 1_000_000)}

    def stop(self):
        return stop(self.server)


class Postgres:
    """`clock_timestamp()` for each of many rows; then EXPLAIN ANALYZE of a scan, with and without TIMING."""

    BIN = "/usr/lib/postgresql/15/bin/"
    DATA = "/var/lib/postgresql/15/main"
    AS_USER = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
    ROWS = 1_000_000
    TIMES = """select count(*), count(*) filter (where t < before), min(t) filter (where i = 1), max(t) filter (where i = n)
        from (select i, n, t, lag(t) over () as before
              from (select i, {0} as n, (extract(epoch from clock_timestamp()) * 1000000)::bigint as t
                    from generate_series(1, {0}) as i) as times) as pairs"""
    SCAN = "explain (analyze, format json, timing {}) select count(*) from rows"

    def __init__(self):
        os.makedirs("/run/postgresql", exist_ok=True)
        os.chmod("/run/postgresql", 0o777)
        global RUN
        RUN = self.AS_USER + RUN
        options = ["-c", "config_file=/etc/postgresql/15/main/postgresql.conf", "-c", "ssl=off"]
        options += ["-c", "fsync=off", "-c", "jit=off", "-c", "autovacuum=off"]
        options += ["-c", "max_parallel_workers_per_gather=0"]
        self.server = start([self.BIN + "postgres", "-D", self.DATA] + options, self.answers)
        self.pids = [self.server.pid]
        self.ask(f"create unlogged table rows as select generate_series(1, {self.ROWS}) as id")

    def ask(self, query):
        command = self.AS_USER + ["psql", "-XqAt", "-F", " ", "-d", "postgres", "-c", query]
        return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout

    def answers(self):
        try:
            return self.ask("select 1") == "1\n"
        except subprocess.CalledProcessError:
            return False

    def scan_ms(self, timing):
        return json.loads(self.ask(self.SCAN.format(timing)))[0]["Execution Time"]

    def load(self, calls):
        count, back, first, last = (int(word) for word in self.ask(self.TIMES.format(calls)).split())
        seen = {"realtime": [count, back, first * 1000, last * 1000, 1000]}
        if calls >= 10_000:
            on, off = self.scan_ms("on"), self.scan_ms("off")
            tool = subprocess.run(RUN + [self.BIN + "pg_test_timing", "-d", "1"], stdout=subprocess.PIPE, text=True)
            words = tool.stdout.partition("overhead:")[2].split()
            seen["figures"] = {"explain_on_ms": on, "explain_off_ms": off, "pg_test_timing_ns": float(words[0])}
        return seen

    def stop(self):
        self.ask("drop table rows")
        return stop(self.server)


os.makedirs(FOLDER, exist_ok=True)
server = {"redis": Redis, "nginx": Nginx, "postgres": Postgres}[sys.argv[1]]()
print("ready", *server.pids, flush=True)
for line in sys.stdin:
    print(json.dumps(server.load(int(line))), flush=True)
sys.exit(server.stop())
