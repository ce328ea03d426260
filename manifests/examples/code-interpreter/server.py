"""Runs code for E2B's code interpreter SDKs: contexts are Jupyter kernels, and results are lines of JSON.

The protocol is the one that @e2b/code-interpreter 2.8 and e2b-code-interpreter 2.11 speak on port 49999.
Kernels: https://jupyter-client.readthedocs.io/en/stable/messaging.html
"""
import asyncio
import json
import logging
import os
import re
import signal
import sys
from pathlib import Path

# First, since it names the folders in which jupyter_client works.
from kernels import Context

from jupyter_client.kernelspec import KernelSpecManager
from tornado.iostream import StreamClosedError
from tornado.web import Application, RequestHandler

PORT = int(os.environ.get("PORT", "49999"))
MAX_CONTEXTS = int(os.environ.get("MAX_CONTEXTS", "16"))
CLAIM = Path("/run/tenancy/claim")
MAX_BODY_BYTES = 16 * 2**20

ALIASES = {"": "python", "py": "python", "js": "javascript", "ts": "typescript", "sh": "bash"}


class Refused(Exception):
    """An answer with a status other than 200, and its text."""

    def __init__(self, status, text):
        super().__init__(text)
        self.status = status


class Interpreter:
    """All contexts. Each language has a default one, which starts with its first code."""

    def __init__(self):
        self.contexts = {}
        self.env = {}
        self._defaults = {}

    def of(self, context_id, language):
        if context_id is not None and language:
            raise Refused(400, "Only one of context_id or language can be provided")
        if context_id is not None:
            if context_id not in self.contexts:
                raise Refused(404, f"Context {context_id} not found")
            return self.contexts[context_id]
        language = self._language(language)
        default = self.contexts.get(self._defaults.get(language))
        if default is None:
            default = self._add(language, os.getcwd())
            self._defaults[language] = default.id
        return default

    async def create(self, language, cwd):
        if not Path(cwd).is_dir():
            raise Refused(400, f"Cannot create a context: there is no folder {cwd}")
        context = self._add(self._language(language), cwd)
        try:
            await context.start()
        except BaseException:
            await self.remove(context.id)
            raise
        return context

    async def remove(self, context_id):
        context = self.of(context_id, None)
        del self.contexts[context_id]
        await context.close()

    async def claimed(self):
        """Reads the variables of the claim that has taken this pod, and gives them to the kernels."""
        env = json.loads((CLAIM / "env.json").read_text())
        secrets = CLAIM / "secrets"
        if secrets.is_dir():
            env |= {file.name: file.read_text() for file in secrets.iterdir() if file.is_file()}
        if env != self.env:
            await asyncio.gather(*(context.set_env(env) for context in self.contexts.values()))
            self.env = env

    def _add(self, language, cwd):
        if len(self.contexts) >= MAX_CONTEXTS:
            raise Refused(429, f"There are {MAX_CONTEXTS} contexts already; remove one first")
        context = Context(language, cwd, self.env)
        self.contexts[context.id] = context
        return context

    def _language(self, given):
        name = (given or "").lower().strip()
        language = ALIASES.get(name, name)
        there = {"python", *KernelSpecManager().find_kernel_specs()} - {"python3"}
        if language not in there:
            raise Refused(400, f"Cannot run {language}: this image has kernels for {', '.join(sorted(there))}")
        return language


class Handler(RequestHandler):
    def initialize(self, interpreter):
        self.interpreter = interpreter

    def set_default_headers(self):
        self.set_header("Content-Type", "text/plain; charset=utf-8")

    def body(self, **types):
        try:
            given = json.loads(self.request.body or b"{}")
        except ValueError:
            raise Refused(400, "The body is not JSON") from None
        if not isinstance(given, dict):
            raise Refused(400, "The body is not an object")
        for name, kind in types.items():
            if not isinstance(given.get(name), (kind, type(None))):
                raise Refused(400, f"{name} has to be of the type {kind.__name__}")
        return [given.get(name) for name in types]

    def json(self, value):
        self.set_header("Content-Type", "application/json")
        self.finish(json.dumps(value))

    def write_error(self, status_code, **more):
        error = more.get("exc_info", (None, None))[1]
        self.set_status(error.status if isinstance(error, Refused) else status_code)
        self.finish(str(error) if error is not None else self._reason)

    def log_exception(self, kind, error, trace):
        if not isinstance(error, Refused):
            super().log_exception(kind, error, trace)


class Health(Handler):
    def get(self):
        self.finish("OK")


class Claimed(Handler):
    async def post(self):
        await self.interpreter.claimed()
        self.finish("OK")


class Execute(Handler):
    left = None

    def on_connection_close(self):
        # Not in `post`, which waits for output.
        if self.left is not None:
            asyncio.ensure_future(self.left())

    async def post(self):
        code, context_id, language, env = self.body(code=str, context_id=str, language=str, env_vars=dict)
        if code is None:
            raise Refused(400, "code is missing")
        context = self.interpreter.of(context_id, language)
        env = env or {}
        if env and context.language not in ("python", "bash"):
            raise Refused(400, f"env_vars are for python and bash, and not for {context.language}")
        for name, value in env.items():
            if not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) or not isinstance(value, str) or "\0" in value:
                raise Refused(400, f"env_vars has to map names of variables to texts, and {name!r} does not")
        execution = context.run(code, env)
        self.left = lambda: context.leave(execution)
        self.set_header("Content-Type", "application/x-ndjson")
        try:
            # The SDK's time for code starts with the headers, also of code that waits.
            await self.flush()
            async for line in execution.lines():
                self.write(line)
                await self.flush()
        except StreamClosedError:
            pass
        self.left = None


class Contexts(Handler):
    def get(self):
        self.json([context.summary() for context in self.interpreter.contexts.values()])

    async def post(self):
        language, cwd = self.body(language=str, cwd=str)
        self.json((await self.interpreter.create(language, cwd or os.getcwd())).summary())


class One(Handler):
    async def delete(self, context_id):
        await self.interpreter.remove(context_id)
        self.set_status(204)


class Restart(Handler):
    async def post(self, context_id):
        await self.interpreter.of(context_id, None).restart()
        self.set_status(204)


async def main():
    logging.basicConfig(level=logging.WARNING)
    interpreter = Interpreter()
    options = {"interpreter": interpreter}
    routes = [
        (r"/health", Health, options),
        (r"/claimed", Claimed, options),
        (r"/execute", Execute, options),
        (r"/contexts", Contexts, options),
        (r"/contexts/([^/]+)", One, options),
        (r"/contexts/([^/]+)/restart", Restart, options),
    ]
    stopped = asyncio.Event()
    for one in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(one, stopped.set)
    try:
        # So that the first code does not wait for a kernel. If it fails, code that is sent tries again and says why.
        await interpreter.of(None, None).start()
    except Exception:
        logging.exception("the first kernel did not start")
    server = Application(routes).listen(PORT, max_body_size=MAX_BODY_BYTES)
    await stopped.wait()
    server.stop()
    await asyncio.gather(*(context.close() for context in interpreter.contexts.values()))


if __name__ == "__main__":
    asyncio.run(main())
    sys.exit(0)
