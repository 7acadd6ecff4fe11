# SPDX-FileCopyrightText: The Cabane developers
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Uses a kernel as a notebook does: `python kernel.py NAME CELL…`. It runs each cell and prints what it printed. Then it
interrupts one, restarts the kernel, and shuts it down."""

import sys
import time

from jupyter_client.manager import KernelManager

LIMIT = 120


def text_of(message):
    content = message["content"]
    if message["msg_type"] == "stream" and content["name"] == "stdout":
        return content["text"]
    if message["msg_type"] == "execute_result":
        return content["data"]["text/plain"] + "\n"
    if message["msg_type"] == "error":
        return content["ename"] + "\n"
    return ""


def run(client, cell, on_output=None):
    """Runs a cell. Returns what it printed, its result, and the name of its error. `on_output` is called at the first output."""
    printed = []

    def hear(message):
        nonlocal on_output
        text = text_of(message)
        if text and on_output:
            call, on_output = on_output, None
            call()
        printed.append(text)

    client.execute_interactive(cell, output_hook=hear, timeout=LIMIT)
    return "".join(printed)


def process_of(manager):
    return manager.provisioner.process.pid


def main(name, cells):
    manager = KernelManager(kernel_name=name)
    manager.start_kernel()
    client = manager.client()
    client.start_channels()
    client.wait_for_ready(timeout=LIMIT)
    for cell in cells:
        print(run(client, cell), end="")
    endless = "import time\nprint('began', flush=True)\nwhile True: time.sleep(0.01)"
    print("interrupted:", run(client, endless, manager.interrupt_kernel).split())
    run(client, "kept = 1")
    print("after the interrupt:", run(client, "kept").strip())
    manager.restart_kernel()
    client.wait_for_ready(timeout=LIMIT)
    print("after the restart:", run(client, "kept").strip())
    kernel = process_of(manager)
    manager.shutdown_kernel()
    print("ended:", manager.has_kernel, kernel is not None)
    client.stop_channels()


main(sys.argv[1], sys.argv[2:])
