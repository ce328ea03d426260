"""Prints the public methods of each class of E2B's SDK for Python, as JSON; those for asyncio have "Async" before."""

import json
import os
import sys

import e2b
from e2b.sandbox_async.commands.command import Commands as AsyncCommands
from e2b.sandbox_async.commands.pty import Pty as AsyncPty
from e2b.sandbox_async.filesystem.filesystem import Filesystem as AsyncFilesystem
from e2b.sandbox_sync.commands.command import Commands
from e2b.sandbox_sync.commands.pty import Pty
from e2b.sandbox_sync.filesystem.filesystem import Filesystem

classes = {
    "Commands": Commands,
    "Pty": Pty,
    "Filesystem": Filesystem,
    "AsyncCommands": AsyncCommands,
    "AsyncPty": AsyncPty,
    "AsyncFilesystem": AsyncFilesystem,
}
handles = ("CommandHandle", "WatchHandle", "SandboxPaginator", "SnapshotPaginator")
for name in (*handles, "Sandbox", "Template", "Volume", "Secret"):
    for prefix in ("", "Async"):
        classes[prefix + name] = getattr(e2b, prefix + name)


def methods(owner):
    return [name for name in dir(owner) if not name.startswith("_") and callable(getattr(owner, name))]


print(json.dumps({name: methods(owner) for name, owner in classes.items()}))
sys.stdout.flush()
os._exit(0)
