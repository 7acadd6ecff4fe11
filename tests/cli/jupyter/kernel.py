# SPDX-FileCopyrightText: The Cabane developers
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Uses a kernel as a notebook does: `python kernel.py NAME CELL…`. It prints what each cell printed. Then it interrupts a
cell, restarts the kernel, and shuts it down."""

import os
import sys

from jupyter_client.manager import KernelManager

LIMIT = 300


def text_of(message):
    content = message["content"]
    if message["msg_type"] == "stream" and content["name"] == "stdout":
        return content["text"]
    if message["msg_type"] == "execute_result":
        return content["data"]["text/plain"] + "\n"
    if message["msg_type"] == "error":
        return content["ename"] + "\n"
    return ""


def run(client, cell, at_output=None):
    """Runs a cell, and calls `at_output` at its first output. Returns what it printed, its value, and its error."""
    said = []

    def hear(message):
        text = text_of(message)
        if text and at_output and not said:
            at_output()
        said.extend([text] if text else [])

    client.execute_interactive(cell, output_hook=hear, timeout=LIMIT)
    return "".join(said)


def main(name, cells):
    manager = KernelManager(kernel_name=name)
    manager.start_kernel()
    client = manager.client()
    client.start_channels()
    client.wait_for_ready(timeout=LIMIT)
    for cell in cells:
        print(run(client, cell), end="")
    endless = "import time\nprint('began', flush=True)\nwhile True: time.sleep(0.01)"
    print("interrupted:", *run(client, endless, manager.interrupt_kernel).split())
    run(client, "kept = 1")
    print("after the interrupt:", run(client, "kept").strip())
    manager.restart_kernel()
    client.wait_for_ready(timeout=LIMIT)
    print("after the restart:", run(client, "kept").strip())
    process = f"/proc/{manager.provisioner.process.pid}"
    print("runs:", os.path.exists(process))
    manager.shutdown_kernel()
    print("runs:", os.path.exists(process))
    client.stop_channels()


main(sys.argv[1], sys.argv[2:])
