"""A server whose calls go on as tasks, and that says of them what a test wants; it writes down all that it hears.

    python tasks.py --log FILE --modern [--http PORT]

As `heard.py`, and it has the tasks extension. The tools `look_task`, `put_task` and `wipe_task` (read, write,
destructive) begin one. They take `mark`; `id`, else each has an id of its own; `poll` and `ttl` in milliseconds; and
`how` it goes:
    never     it goes on for ever                      silent    asking about it is never answered
    done      it is completed at once                  fails     it fails with an error of the protocol
    until     it is completed when the file is there   ask       it asks a question, and ends with the answer
    garbage, other, type, inner, status, empty         asking about it is answered with something that is none, with
              another task's id, as another type of result, with a result that is a task again, with a status that
              there is none of, completed with no result
    megabyte  it goes on with a message of a megabyte, then ends with a result of one
    forgotten the server says that it knows no such task
A task whose `id` begins with `kept-` is known, and completed, to a server that was started since.
"""

from __future__ import annotations

import itertools
import os
import sys
from pathlib import Path
from types import MappingProxyType
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from heard import HINTS, PROPERTIES, QUESTION, Heard, Send, main
from plain import error, result, text

EXTENSION = "io.modelcontextprotocol/tasks"
MEGABYTE = 1 << 20
NOW = "2026-07-28T00:00:00Z"


class Tasks(Heard):
    extensions = MappingProxyType({"extensions": {EXTENSION: {}}})

    def __init__(self, args: Any) -> None:
        super().__init__(args)
        schema = {"type": "object", "properties": {**PROPERTIES, "how": {"type": "string"}}}
        self.tools += [
            {"name": f"{name}_task", "inputSchema": schema, "annotations": hints} for name, hints in HINTS.items()
        ]
        self.tasks: dict[str, dict[str, Any]] = {}
        self.numbers = itertools.count(1)

    def call(self, request_id: Any, params: dict[str, Any], send: Send) -> None:
        if not params.get("name", "").endswith("_task"):
            super().call(request_id, params, send)
            return
        args = params.get("arguments") or {}
        task_id = args.get("id") or f"{os.getpid()}-{next(self.numbers)}"
        self.tasks[task_id] = {**args, "status": "working", "looked": 0}
        send(result(request_id, {"resultType": "task", **self.head(task_id)}))

    def head(self, task_id: str) -> dict[str, Any]:
        task = self.tasks[task_id]
        times = {"createdAt": NOW, "lastUpdatedAt": NOW, "ttlMs": task.get("ttl", 60_000)}
        return {"taskId": task_id, "status": task["status"], **times, "pollIntervalMs": task.get("poll", 100)}

    def answer(self, request_id: Any, method: str, params: dict[str, Any], send: Send) -> None:
        if not method.startswith("tasks/"):
            super().answer(request_id, method, params, send)
            return
        task_id = params.get("taskId", "")
        if task_id.startswith("kept-"):
            self.tasks.setdefault(task_id, {"status": "working", "looked": 0, "mark": task_id})
        task = self.tasks.get(task_id)
        if task is None or task.get("how") == "forgotten":
            send(error(request_id, -32602, "No task of that id"))
        elif method == "tasks/cancel":
            task["status"] = "cancelled"
            send(self.done(request_id, {}))
        elif method == "tasks/update":
            task["said"] = params.get("inputResponses")
            send(self.done(request_id, {}))
        elif (said := self.told(task_id) if task["status"] == "working" else self.head(task_id)) is not None:
            send(result(request_id, {"resultType": "complete", **said}))

    def told(self, task_id: str = "") -> dict[str, Any] | None:  # type: ignore[override]
        """What `tasks/get` is answered with; `None`: nothing."""
        if not task_id:
            return super().told()
        task, head = self.tasks[task_id], self.head(task_id)
        task["looked"] += 1
        done = {**head, "status": "completed", "result": text(f"came of {task.get('mark')}")}
        how = task.get("how", "done")
        if how == "ask":
            if task.get("said"):
                return {**head, "status": "completed", "result": text(str(task["said"]))}
            asked = {"one": {"method": "elicitation/create", "params": QUESTION}}
            return {**head, "status": "input_required", "inputRequests": asked}
        if how == "megabyte":
            if task["looked"] < 3:
                return {**head, "statusMessage": "x" * MEGABYTE}
            return {**done, "result": text("y" * MEGABYTE)}
        if how == "until":
            return done if os.path.exists(task["until"]) else head
        if how == "silent":
            return None
        kinds: dict[str, dict[str, Any]] = {
            "done": done, "never": head, "garbage": {"what": [1, {"taskId": task_id}]},
            "other": {**done, "taskId": "another"}, "type": {**done, "resultType": "input_required"},
            "inner": {**done, "result": {"resultType": "task", **head}}, "status": {**head, "status": "dreaming"},
            "empty": {**head, "status": "completed"},
            "fails": {**head, "status": "failed", "error": {"code": -32603, "message": "it broke down"}},
        }  # fmt: skip
        return kinds[how]


if __name__ == "__main__":
    main(Tasks)
