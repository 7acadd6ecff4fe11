# SPDX-FileCopyrightText: The Cabane developers
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Gets the program uv out of its wheel, from where the packages of the build come.

    fetch_uv.py VERSION PLATFORM SHA256 PROGRAM

PLATFORM is how the name of the wheel ends. The indexes are those that uv itself would use, by the same
variables; they answer as PEP 503 or PEP 691 say."""

import base64
import hashlib
import html.parser
import io
import json
import os
import ssl
import sys
import tempfile
import urllib.parse
import urllib.request
import zipfile

ACCEPT = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1"
# In seconds, for each answer.
PATIENCE = 60


def setting(*names):
    """The words of the first variable that is set."""
    for name in names:
        if os.environ.get(name):
            return os.environ[name].split()
    return []


def indexes():
    first = setting("UV_DEFAULT_INDEX", "UV_INDEX_URL") or ["https://pypi.org/simple"]
    # An index of uv can have a name: `lab=https://…`.
    named = [one.split("=", 1)[-1] if "://" not in one.split("=", 1)[0] else one
             for one in setting("UV_INDEX") + first]
    return named + setting("UV_EXTRA_INDEX_URL")


def get(address):
    """The content of an address, its type, and where it was found."""
    parts = urllib.parse.urlsplit(address)
    host = parts.netloc.rpartition("@")[2]
    plain = parts._replace(netloc=host).geturl()
    request = urllib.request.Request(plain, headers={"Accept": ACCEPT})
    if parts.username is not None:
        user = f"{urllib.parse.unquote(parts.username)}:{urllib.parse.unquote(parts.password or '')}"
        request.add_unredirected_header("Authorization", "Basic " + base64.b64encode(user.encode()).decode())
    context = None
    if {host, parts.hostname} & set(setting("UV_INSECURE_HOST")):
        context = ssl._create_unverified_context()
    with urllib.request.urlopen(request, timeout=PATIENCE, context=context) as answer:
        return answer.read(), answer.headers.get_content_type(), answer.geturl()


class Links(html.parser.HTMLParser):
    """The addresses of all links of a page."""

    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attrs):
        if tag == "a":
            self.found += [value for name, value in attrs if name == "href" and value]


def addresses(index):
    """The addresses of the files that an index has of uv."""
    page, kind, place = get(index.rstrip("/") + "/uv/")
    if kind.endswith("json"):
        found = [one["url"] for one in json.loads(page)["files"]]
    else:
        links = Links()
        links.feed(page.decode(errors="replace"))
        found = links.found
    # The user and password of the index are also those of its files on the same host.
    given = urllib.parse.urlsplit(index).netloc
    for one in found:
        parts = urllib.parse.urlsplit(urllib.parse.urljoin(place, one))._replace(fragment="")
        if "@" in given and parts.netloc == given.rpartition("@")[2]:
            parts = parts._replace(netloc=given)
        yield parts.geturl()


def wheels(version, platform):
    """The content of each wheel that may be the right one, and a line for each place without."""
    def is_wanted(name):
        name = urllib.parse.unquote(name.rpartition("/")[2])
        return name.startswith(f"uv-{version}-") and name.endswith(f"{platform}.whl")

    for place in setting("UV_FIND_LINKS"):
        if os.path.isdir(place):
            for name in filter(is_wanted, sorted(os.listdir(place))):
                with open(os.path.join(place, name), "rb") as file:
                    yield file.read(), None
    for index in indexes():
        shown = urllib.parse.urlsplit(index)
        shown = shown._replace(netloc=shown.netloc.rpartition("@")[2]).geturl()
        try:
            found = next(filter(is_wanted, addresses(index)), None)
            if found is None:
                yield None, f"{shown} has no uv {version} for {platform}"
            else:
                yield get(found)[0], None
        except (OSError, ValueError, KeyError) as error:
            reason = getattr(error, "reason", None) or error
            yield None, f"{shown}: {reason}"


def main(version, platform, digest, program):
    reasons = []
    for wheel, reason in wheels(version, platform):
        if wheel is not None and hashlib.sha256(wheel).hexdigest() == digest:
            break
        reasons.append(reason or f"a wheel of uv {version} has another sha256 than {digest}")
    else:
        reasons = [f"cannot fetch uv {version}: {one}" for one in reasons]
        sys.exit("\n".join([*reasons, "to use another version, set CABANE_UV to its path"]))
    with zipfile.ZipFile(io.BytesIO(wheel)) as archive:
        content = archive.read(f"uv-{version}.data/scripts/uv")
    directory = os.path.dirname(program)
    os.makedirs(directory, exist_ok=True)
    # Another build may do the same at this moment.
    with tempfile.NamedTemporaryFile(dir=directory, delete=False) as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.chmod(file.name, 0o755)
    os.rename(file.name, program)


main(*sys.argv[1:])
