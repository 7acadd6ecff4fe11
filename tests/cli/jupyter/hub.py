# SPDX-FileCopyrightText: The Cabane developers
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Starts a server for a user with JupyterHub, whose command is that of the guide:
`python hub.py CABANE IMAGE PROGRAM DIRECTORY`. It counts the servers by the path of the program in the image, starts a
kernel, and stops the server."""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

LIMIT = 180
TOKEN = "0123456789abcdef0123456789abcdef"
CONFIG = """
c.JupyterHub.bind_url = 'http://127.0.0.1:{ports[0]}'
c.JupyterHub.hub_port = {ports[1]}
c.ConfigurableHTTPProxy.api_url = 'http://127.0.0.1:{ports[2]}'
c.JupyterHub.authenticator_class = 'dummy'
c.Authenticator.allow_all = True
c.JupyterHub.spawner_class = 'simple'
c.SimpleLocalProcessSpawner.home_dir_template = {home!r}
c.Spawner.cmd = [{cabane!r}, 'run', {image!r}, '--', 'jupyterhub-singleuser']
c.Spawner.env_keep = ['PATH', 'CABANE_SYSTEM', 'CABANE_SITE_CONFIG', 'CABANE_HELPER']
c.Spawner.start_timeout = c.Spawner.http_timeout = {limit}
c.JupyterHub.services = [{{'name': 'test', 'api_token': {token!r}}}]
c.JupyterHub.load_roles = [
    {{'name': 'test', 'services': ['test'], 'scopes': ['admin:users', 'admin:servers', 'access:servers']}}
]
"""


def free_ports(count):
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [listener.getsockname()[1] for listener in listeners]
    for listener in listeners:
        listener.close()
    return ports


def ask(url, method="GET", body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Authorization": "token " + TOKEN}, method=method)
    with urllib.request.urlopen(request, timeout=LIMIT) as answer:
        text = answer.read()
    return json.loads(text) if text else None


def until(question):
    end = time.monotonic() + LIMIT
    while time.monotonic() < end:
        try:
            answer = question()
        except (urllib.error.URLError, ConnectionError):
            answer = None
        if answer:
            return answer
        time.sleep(0.2)
    raise SystemExit("no answer in time")


def processes(word):
    """Returns the processes in which an interpreter runs a script, which is in an image."""
    found = []
    for process in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{process}/cmdline", "rb") as file:
                words = file.read().split(b"\0")
        except OSError:
            continue
        if words[1:2] == [word.encode()]:
            found.append(process)
    return found


def main(cabane, image, image_program, directory):
    ports = free_ports(3)
    config = os.path.join(directory, "jupyterhub_config.py")
    with open(config, "w") as file:
        values = {"ports": ports, "cabane": cabane, "image": image, "limit": LIMIT, "token": TOKEN}
        file.write(CONFIG.format(home=os.environ["HOME"], **values))
    hub = f"http://127.0.0.1:{ports[0]}/hub/api"
    server = f"http://127.0.0.1:{ports[0]}/user/alice/api"
    command = [sys.executable, "-m", "jupyterhub", "-f", config]
    with open(os.path.join(directory, "hub.log"), "w") as log:
        process = subprocess.Popen(command, cwd=directory, stdout=log, stderr=log)
    try:
        until(lambda: ask(hub + "/"))
        ask(hub + "/users/alice", "POST", {})
        ask(hub + "/users/alice/server", "POST", {})
        until(lambda: ask(hub + "/users/alice")["servers"].get("", {}).get("ready"))
        servers = processes(image_program)
        print("servers:", len(servers))
        print("kernel:", ask(server + "/kernels", "POST", {"name": "python3"})["name"])
        ask(hub + "/users/alice/server", "DELETE")
        until(lambda: not ask(hub + "/users/alice")["servers"])
        until(lambda: not any(os.path.exists(f"/proc/{one}") for one in servers))
        print("stopped")
    finally:
        process.terminate()
        process.wait(LIMIT)


main(*sys.argv[1:])
