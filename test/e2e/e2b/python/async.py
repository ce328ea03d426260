"""The same as sync.py, by the asynchronous client."""

import asyncio
import os
import sys

from e2b import (
    AsyncSandbox,
    CommandExitException,
    FileNotFoundException,
    PtySize,
    TimeoutException,
)

# Longer than any call takes.
LONG = 170


async def fails(kind, call):
    try:
        await call
    except kind as error:
        return error
    raise AssertionError(f"it did not raise {kind.__name__}")


async def until(condition):
    for _ in range(LONG * 20):
        if await condition():
            return
        await asyncio.sleep(0.05)
    raise AssertionError("it did not happen")


async def main():
    sandbox = await AsyncSandbox.connect(sys.argv[1], timeout=3600, request_timeout=LONG)
    commands, files, pty = sandbox.commands, sandbox.files, sandbox.pty
    assert await sandbox.is_running()
    [metrics] = await sandbox.get_metrics()
    assert metrics.mem_total == 128 << 20 and 0 < metrics.mem_used < metrics.mem_total, metrics
    result = await commands.run('echo "$A"; pwd; echo problem >&2', envs={"A": "ü"}, cwd="/tmp", timeout=LONG)
    assert (result.stdout, result.stderr, result.exit_code) == ("ü\n/tmp\n", "problem\n", 0), result
    error = await fails(CommandExitException, commands.run("exit 7", timeout=LONG))
    assert error.exit_code == 7
    await fails(TimeoutException, commands.run("sleep 1000", timeout=1))

    async def is_none_left():
        return await commands.list() == []

    await until(is_none_left)
    command = await commands.run("read a; echo got $a; cat", background=True, stdin=True, timeout=0)
    await commands.send_stdin(command.pid, "hello\n")

    stream = commands.stream_input(command.pid)
    await stream.send("the ")
    await stream.send(b"rest")
    await stream.close()
    await command.disconnect()
    connected = await commands.connect(command.pid, timeout=0)
    await commands.close_stdin(command.pid)
    assert (await connected.wait()).stdout == "got hello\nthe rest"
    command = await commands.run("sleep 1000", background=True, timeout=0)
    assert await commands.kill(command.pid)
    assert (await fails(CommandExitException, command.wait())).error == "signal: killed"
    assert not await commands.kill(command.pid)

    output = []
    terminal = await pty.create(PtySize(rows=20, cols=90), on_data=output.append, timeout=0)
    await pty.resize(terminal.pid, PtySize(rows=30, cols=100))
    await pty.send_stdin(terminal.pid, b"stty size; exit 4\n")
    assert (await fails(CommandExitException, terminal.wait())).exit_code == 4
    assert b"30 100\r\n" in b"".join(output), output

    assert (await files.write("/data/py/ü.txt", "hello")).path == "/data/py/ü.txt"
    content = b"0123456789" * 300_000
    await files.write("/data/py/large", content)
    assert await files.read("/data/py/large", format="bytes") == content
    await files.write("/data/py/packed", content, gzip=True)
    size = 0
    async for piece in await files.read("/data/py/packed", format="stream"):
        size += len(piece)
    assert size == len(content)
    assert [one.name for one in await files.list("/data/py")] == ["large", "packed", "ü.txt"]
    await fails(FileNotFoundException, files.read("/data/py/none"))
    assert (await files.rename("/data/py/large", "/data/py/b/c")).path == "/data/py/b/c"
    assert await files.make_dir("/data/py/d") and not await files.make_dir("/data/py/d")

    seen = []
    watch = await files.watch_dir("/data/py/d", lambda event: seen.append((event.type.value, event.name)), timeout=0)
    await files.write("/data/py/d/new", "new")

    async def has_seen():
        return {("create", "new"), ("write", "new")} <= set(seen)

    await until(has_seen)
    await watch.stop()
    await files.remove("/data/py")
    print("done")


asyncio.run(main())
sys.stdout.flush()
# The SDK's HTTP client, which is native code, now and then aborts Python at its end, also after one command.
os._exit(0)
