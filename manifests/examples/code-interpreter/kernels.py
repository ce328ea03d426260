"""Contexts of the code interpreter: each is a Jupyter kernel that runs one piece of code after the other.

Kernels: https://jupyter-client.readthedocs.io/en/stable/messaging.html
"""
import asyncio
import json
import logging
import os
import tempfile
import time
import uuid
from pathlib import Path

# Files of kernels are not the tenant's: they must not be in a folder that is saved.
for variable in ("JUPYTER_RUNTIME_DIR", "IPYTHONDIR"):
    os.environ.setdefault(variable, tempfile.mkdtemp(prefix="kernels-"))

from jupyter_client import AsyncKernelManager

START_SECONDS = 60
KEEPALIVE_SECONDS = 5
ALIVE_SECONDS = 1
# A kernel's last output comes on another socket than its reply, and output can be lost there.
LAST_OUTPUT_SECONDS = 10
MAX_WAITING_BYTES = 64 * 2**20

FIELDS = {
    "text/plain": "text",
    "text/html": "html",
    "text/markdown": "markdown",
    "image/svg+xml": "svg",
    "image/png": "png",
    "image/jpeg": "jpeg",
    "application/pdf": "pdf",
    "text/latex": "latex",
    "application/json": "json",
    "application/javascript": "javascript",
    "e2b/data": "data",
    "e2b/chart": "chart",
}
KERNELS = {"python": "python3"}


class KernelEnded(Exception):
    pass


class Execution:
    """Code that waits or runs, and its output so far."""

    def __init__(self, code, env):
        self.code = code
        self.env = env
        self.has_error = False
        self.is_left = False
        self._lines = asyncio.Queue()
        self._bytes = 0

    def put(self, item):
        line = json.dumps(item).encode() + b"\n"
        self._bytes += len(line)
        self._lines.put_nowait(line)
        return self._bytes <= MAX_WAITING_BYTES

    def fail(self, name, value, traceback=""):
        if not self.has_error:
            self.has_error = True
            self.put({"type": "error", "name": name, "value": value, "traceback": traceback})

    def end(self):
        self.put({"type": "end_of_execution"})
        self._lines.put_nowait(None)

    async def lines(self):
        while True:
            try:
                line = await asyncio.wait_for(self._lines.get(), KEEPALIVE_SECONDS)
            except asyncio.TimeoutError:
                # What is between here and the client may close a connection that is silent.
                yield b'{"type": "keepalive"}\n'
                continue
            if line is None:
                return
            self._bytes -= len(line)
            yield line


class Context:
    """A kernel that runs one piece of code after the other. It starts with its first code, and again after its end."""

    def __init__(self, language, cwd, env):
        self.id = str(uuid.uuid4())
        self.language = language
        self.cwd = cwd
        self._env = dict(env)
        self._manager = None
        self._client = None
        self._reader = None
        self._executions = asyncio.Queue()
        self._current = None
        # The request that the kernel handles: its id, its execution (none for variables), and whether it is over.
        self._request = (None, None, asyncio.Event())
        self._starting = asyncio.Lock()
        self._worker = asyncio.create_task(self._work())

    def summary(self):
        return {"id": self.id, "language": self.language, "cwd": self.cwd}

    def run(self, code, env):
        execution = Execution(code, env)
        self._executions.put_nowait(execution)
        return execution

    async def leave(self, execution):
        """Interrupts code whose client has gone, and forgets it if it has not started."""
        execution.is_left = True
        if self._current is execution and self._request[1] is execution and self._reader is not None:
            await self._manager.interrupt_kernel()

    async def start(self):
        async with self._starting:
            if self._manager is not None and await self._manager.is_alive():
                return
            await self._end_kernel()
            name = KERNELS.get(self.language, self.language)
            # The beginning of its sockets' paths; by itself it is relative, and the kernel has another folder.
            sockets = os.path.join(os.environ["JUPYTER_RUNTIME_DIR"], uuid.uuid4().hex[:12])
            manager = AsyncKernelManager(kernel_name=name, transport="ipc", ip=sockets)
            words = []
            if self.language == "python":
                setup = Path(__file__).with_name("kernel_setup.py")
                words = ["--HistoryManager.enabled=False", f"--IPKernelApp.exec_files={setup}"]
            self._manager = manager
            try:
                env = {**os.environ, **self._env}
                await manager.start_kernel(cwd=self.cwd, env=env, extra_arguments=words)
                self._client = manager.client()
                self._client.start_channels()
                await self._client.wait_for_ready(timeout=START_SECONDS)
            except Exception:
                await self._end_kernel()
                raise
            self._reader = asyncio.create_task(self._read(self._client))

    async def set_env(self, env):
        """Sets variables of the kernel, and of those that follow it."""
        self._env.update(env)
        if self._reader is not None:
            execution = self.run(None, env)
            async for _ in execution.lines():
                pass
            if execution.has_error:
                raise Refused(500, f"Cannot set the variables of context {self.id}")

    async def restart(self):
        await self.close("ContextRestarting", "Context was restarted")
        self._worker = asyncio.create_task(self._work())
        await self.start()

    async def close(self, name="ContextRemoved", value="Context was removed"):
        self._worker.cancel()
        self._fail_all(name, value)
        async with self._starting:
            await self._end_kernel()

    async def _end_kernel(self):
        manager, client, reader = self._manager, self._client, self._reader
        self._manager = self._client = self._reader = None
        if reader is not None:
            reader.cancel()
        if client is not None:
            client.stop_channels()
        if manager is not None and manager.has_kernel:
            await manager.shutdown_kernel(now=True)

    def _fail_all(self, name, value):
        executions, self._current = [self._current], None
        while not self._executions.empty():
            executions.append(self._executions.get_nowait())
        for execution in filter(None, executions):
            execution.fail(name, value)
            execution.end()

    async def _work(self):
        while True:
            execution = self._current = await self._executions.get()
            try:
                if not execution.is_left:
                    await self.start()
                    await self._execute(execution)
            except KernelEnded as error:
                self._fail_all("KernelEnded", str(error))
            except Exception as error:
                logging.exception("execution failed")
                execution.fail(type(error).__name__, str(error))
            if self._current is execution:
                execution.end()
                self._current = None

    async def _execute(self, execution):
        if execution.code is None:
            await self._ask(set_variables(self.language, execution.env, lasts=True), execution, silent=True)
            return
        if execution.env:
            await self._ask(set_variables(self.language, execution.env), execution, silent=True)
        if not execution.is_left and not execution.has_error:
            await self._ask(execution.code, execution)
        if execution.env:
            await self._ask(unset_variables(self.language, execution.env, self._env), None, silent=True)

    async def _ask(self, code, execution, silent=False):
        over = asyncio.Event()
        request = self._client.execute(code, silent=silent, store_history=not silent, allow_stdin=False)
        self._request = (request, None if silent else execution, over)
        content = await self._reply(request)
        try:
            await asyncio.wait_for(over.wait(), LAST_OUTPUT_SECONDS)
        except asyncio.TimeoutError:
            logging.warning("output of an execution was lost")
        if execution is not None and content["status"] != "ok":
            text = "\n".join(content.get("traceback", []))
            execution.fail(content.get("ename", ""), content.get("evalue", content["status"]), text)

    async def _reply(self, request):
        while True:
            try:
                message = await asyncio.wait_for(self._client.get_shell_msg(), ALIVE_SECONDS)
            except asyncio.TimeoutError:
                if self._manager is None or not await self._manager.is_alive():
                    text = "The kernel has ended, out of memory or by the code: its variables are lost"
                    raise KernelEnded(text) from None
                continue
            if message["parent_header"].get("msg_id") == request:
                return message["content"]

    async def _read(self, client):
        """Reads all output, also of code that is over: a socket that is not read loses what comes later."""
        while True:
            message = await client.get_iopub_msg()
            request, execution, over = self._request
            if message["parent_header"].get("msg_id") != request:
                continue
            kind, content = message["msg_type"], message["content"]
            if kind == "status" and content["execution_state"] == "idle":
                over.set()
            elif execution is not None and not execution.is_left and not self._put(execution, kind, content):
                execution.fail("OutputTooLarge", f"{MAX_WAITING_BYTES} bytes of output wait for a slow client")
                await self.leave(execution)

    def _put(self, execution, kind, content):
        if kind == "stream":
            return execution.put({"type": content["name"], "text": content["text"], "timestamp": time.time_ns()})
        if kind in ("display_data", "execute_result"):
            return execution.put(result_of(content["data"], kind == "execute_result"))
        if kind == "execute_input":
            return execution.put({"type": "number_of_executions", "execution_count": content["execution_count"]})
        if kind == "error":
            execution.fail(content["ename"], content["evalue"], "\n".join(content["traceback"]))
        return True


def result_of(data, is_main):
    known = {FIELDS[kind]: value for kind, value in data.items() if kind in FIELDS}
    others = {kind: value for kind, value in data.items() if kind not in FIELDS}
    text = known.get("text")
    if text and len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        known["text"] = text[1:-1]
    # Python's SDK reads `extra`, JavaScript's the fields beside it.
    extra = {**others, "extra": others} if others else {}
    return {"type": "result", "is_main_result": is_main, **extra, **known}


def set_variables(language, env, lasts=False):
    if language == "python":
        setter = "__import__('os').environ.update" if lasts else "get_ipython().set_variables"
        return f"{setter}({env!r})"
    return "\n".join(f"export {name}={ansi_quoted(value)}" for name, value in env.items())


def unset_variables(language, env, lasting):
    if language == "python":
        return "get_ipython().unset_variables()"
    before = {**os.environ, **lasting}
    lines = [f"export {name}={ansi_quoted(before[name])}" if name in before else f"unset {name}" for name in env]
    return "\n".join(lines)


def ansi_quoted(value):
    escaped = value.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n")
    return f"$'{escaped}'"
