"""What E2B's SDK for Python does in a sandbox, whose id is its argument."""

import sys
import time

from e2b import (
    CommandExitException,
    FileNotFoundException,
    InvalidArgumentException,
    PtySize,
    Sandbox,
    TimeoutException,
)

# Longer than any call takes.
LONG = 170

sandbox = Sandbox.connect(sys.argv[1], timeout=3600, request_timeout=LONG)


def fails(kind, call):
    try:
        call()
    except kind as error:
        return error
    raise AssertionError(f"it did not raise {kind.__name__}")


def until(condition):
    for _ in range(LONG * 20):
        if condition():
            return
        time.sleep(0.05)
    raise AssertionError("it did not happen")


assert sandbox.is_running()
[metrics] = sandbox.get_metrics()
assert metrics.mem_total == 128 << 20 and 0 < metrics.mem_used < metrics.mem_total, metrics
assert metrics.cpu_count == 1 and 0 <= metrics.cpu_used_pct <= 100, metrics
result = sandbox.commands.run('echo "$A"; pwd; echo problem >&2', envs={"A": "ü"}, cwd="/tmp", timeout=LONG)
assert (result.stdout, result.stderr, result.exit_code) == ("ü\n/tmp\n", "problem\n", 0), result
error = fails(CommandExitException, lambda: sandbox.commands.run("echo out; exit 7", timeout=LONG))
assert (error.exit_code, error.stdout) == (7, "out\n"), error
fails(TimeoutException, lambda: sandbox.commands.run("sleep 1000", timeout=1))
until(lambda: sandbox.commands.list() == [])

command = sandbox.commands.run("read a; echo got $a; cat", background=True, stdin=True, timeout=0)
sandbox.commands.send_stdin(command.pid, "hello\n")
sandbox.commands.stream_input(command.pid, ["the ", b"rest"])
assert [one.pid for one in sandbox.commands.list()] == [command.pid]
command.disconnect()
connected = sandbox.commands.connect(command.pid, timeout=0)
sandbox.commands.close_stdin(command.pid)
assert connected.wait().stdout == "got hello\nthe rest"
command = sandbox.commands.run("sleep 1000", background=True, timeout=0)
assert sandbox.commands.kill(command.pid)
assert fails(CommandExitException, command.wait).error == "signal: killed"
assert not sandbox.commands.kill(command.pid)

terminal = sandbox.pty.create(PtySize(rows=20, cols=90), timeout=0)
sandbox.pty.resize(terminal.pid, PtySize(rows=30, cols=100))
sandbox.pty.send_stdin(terminal.pid, b"stty size\n")
sandbox.pty.stream_input(terminal.pid, [b"exit", b" 4\n"])
output = []
error = fails(CommandExitException, lambda: terminal.wait(on_pty=output.append))
assert error.exit_code == 4 and b"30 100\r\n" in b"".join(output), output

files = sandbox.files
assert files.write("/data/py/ü.txt", "hello").path == "/data/py/ü.txt"
assert files.read("/data/py/ü.txt") == "hello"
content = b"0123456789" * 300_000
files.write("/data/py/large", content)
assert files.read("/data/py/large", format="bytes") == content
files.write("/data/py/packed", content, gzip=True)
assert sum(len(piece) for piece in files.read("/data/py/packed", format="stream")) == len(content)
assert [one.name for one in files.list("/data/py")] == ["large", "packed", "ü.txt"]
assert files.get_info("/data/py/large").size == len(content)
assert not files.exists("/data/py/none")
fails(FileNotFoundException, lambda: files.read("/data/py/none"))
fails(InvalidArgumentException, lambda: files.list("/data/py/large"))
assert files.rename("/data/py/large", "/data/py/b/c").path == "/data/py/b/c"
assert files.make_dir("/data/py/d") and not files.make_dir("/data/py/d")
files.remove("/data/py/b")
assert not files.exists("/data/py/b/c")

watch = files.watch_dir("/data/py/d")
seen = []


def has_seen(*events):
    seen.extend((event.type.value, event.name) for event in watch.get_new_events())
    return all(event in seen for event in events)


files.write("/data/py/d/new", "new")
until(lambda: has_seen(("create", "new"), ("write", "new")))
files.remove("/data/py/d/new")
until(lambda: has_seen(("remove", "new")))
watch.stop()
files.remove("/data/py")
print("done")
